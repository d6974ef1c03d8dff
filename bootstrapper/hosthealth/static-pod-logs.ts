import { MINUTE_MS, type Clock } from '../../internal/clock/index.ts';
import { readTail, type FilePort, type StreamPort } from '../../internal/file/index.ts';
import { lastErrorLine } from '../../internal/lasterror/index.ts';

const PODS = '/var/log/pods';
/** The end of a log that is read: more than the usage text that a program prints before its error. */
const TAIL_BYTES = 128 * 1024;
/** A container that crashes is restarted after at most five minutes. An older line is about an earlier problem. */
const RECENT_MS = 6 * MINUTE_MS;
/** The newest log may be of a container that has just been started, and has no error yet. */
const MAX_LOGS = 2;
/** "2026-11-28T09:53:05.2Z stderr F TEXT", as container runtimes write each line. */
const CRI_LINE = /^(\S+) std(?:out|err) [FP] (.*)$/;

/** Ports (injected dependencies) of `StaticPodLogs`. */
export interface PodLogPorts {
  readonly files: FilePort;
  readonly streams: Pick<StreamPort, 'readChunks'>;
  readonly clock: Clock;
}

/** The logs of static pods of this node, as the kubelet keeps them. */
export class StaticPodLogs {
  readonly #ports: PodLogPorts;

  constructor(ports: PodLogPorts) {
    this.#ports = ports;
  }

  /** The last error in the newest logs of a static pod; undefined if there is none, or no log can be read. */
  async lastError(name: string, signal: AbortSignal): Promise<string | undefined> {
    try {
      for (const { path, sizeBytes } of await this.#newest(name)) {
        const found = lastErrorLine(await this.#tail(path, sizeBytes, signal));
        if (found !== undefined) return found;
      }
    } catch {
      signal.throwIfAborted(); // the kubelet removes logs at any time, so a log may be missing now
    }
    return undefined;
  }

  /** Each change of the manifest makes a new directory, and each restart of the container a new file. */
  async #newest(name: string): Promise<readonly { readonly path: string; readonly sizeBytes: number }[]> {
    const { files, clock } = this.#ports;
    const pods = (await files.list(PODS)).filter((each) => each.startsWith(`kube-system_${name}-`));
    const logs = await Promise.all(
      pods.map(async (pod) => {
        const directory = `${PODS}/${pod}/${name}`;
        const names = (await files.list(directory)).filter((each) => /^\d+\.log$/.test(each));
        return names.map((each) => `${directory}/${each}`);
      }),
    );
    const stats = await Promise.all(
      logs.flat().map(async (path) => ({ path, stat: await files.stat(path) })),
    );
    return stats
      .flatMap(({ path, stat }) => (stat === undefined ? [] : [{ path, ...stat }]))
      .filter(({ modifiedMs }) => clock.nowMs() - modifiedMs < RECENT_MS)
      .toSorted((a, b) => b.modifiedMs - a.modifiedMs)
      .slice(0, MAX_LOGS);
  }

  async #tail(path: string, sizeBytes: number, signal: AbortSignal): Promise<readonly string[]> {
    const tail = await readTail(this.#ports.streams, path, { sizeBytes, maxBytes: TAIL_BYTES, signal });
    const lines = tail.toString('utf8').split('\n');
    const sinceMs = this.#ports.clock.nowMs() - RECENT_MS;
    return lines.flatMap((line) => {
      const [, time = '', text = ''] = CRI_LINE.exec(line) ?? [];
      return Date.parse(time) > sinceMs ? [text] : [];
    });
  }
}
