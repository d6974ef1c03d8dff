import type { Clock } from '../../../internal/clock/index.ts';
import { describeError } from '../../../internal/errors/index.ts';
import type { FilePort } from '../../../internal/file/index.ts';
import type { UnitPort } from '../../../internal/platform/index.ts';
import type { PhaseProgress } from '../../phases/index.ts';
import { KubernetesError } from '../errors.ts';
import { KUBELET_UNIT } from '../node/units.ts';

const POLL_MS = 250;
const POD_LOGS = '/var/log/pods';
/** The kubelet begins another file at 10 MiB (containerLogMaxSize). */
const MAX_LOG_BYTES = 16 * 1024 * 1024;

/** One wait: what for, how long, and who is told. */
export interface Wait {
  readonly what: string;
  readonly timeoutMs: number;
  readonly progress: PhaseProgress;
  readonly signal: AbortSignal;
}

export interface WaitPorts {
  readonly files: FilePort;
  readonly units: UnitPort;
  readonly clock: Clock;
}

/** Every wait names what it waits for, since when, and the last error; its end names the likely cause. */
export async function waitFor(ports: WaitPorts, wait: Wait, attempt: () => Promise<void>): Promise<void> {
  const { clock } = ports;
  const endMs = clock.monotonicMs() + wait.timeoutMs;
  for (let polls = 0; ; polls++) {
    try {
      return await attempt();
    } catch (error) {
      wait.signal.throwIfAborted();
      wait.progress.report(wait.what, { lastError: error });
      if (polls % 20 === 19) await refuseDeadKubelet(ports, wait);
      if (clock.monotonicMs() > endMs) {
        const said = await lastWords(ports, wait.signal);
        throw new KubernetesError(
          'kubernetes-api-timeout',
          `${wait.what} for ${wait.timeoutMs / 1000} s: ${said}`,
          { cause: error },
        );
      }
    }
    await clock.sleep(POLL_MS, wait.signal);
  }
}

/** A kubelet that restarts again and again says why in its log; waiting longer would only hide it. */
async function refuseDeadKubelet({ units }: WaitPorts, wait: Wait): Promise<void> {
  const status = await units.status(KUBELET_UNIT, wait.signal);
  if (status.restarts < 5 || status.sub === 'running') return;
  const said = await units.recentLog(KUBELET_UNIT, 5, wait.signal);
  throw new KubernetesError(
    'kubernetes-kubelet-failed',
    `${wait.what}: the kubelet ended ${status.restarts} times: ${said.join(' | ')}`,
  );
}

/** The API server's own last lines where it got as far as a log, else the kubelet's. Never the reason of a failure of its own. */
async function lastWords(ports: WaitPorts, signal: AbortSignal): Promise<string> {
  try {
    const server = await apiServerSaid(ports.files);
    if (server.length > 0) return `the API server said: ${server.join(' | ')}`;
  } catch {
    // A log too large to be read, or gone meanwhile: the kubelet has its own.
  }
  try {
    return `the kubelet said: ${(await ports.units.recentLog(KUBELET_UNIT, 3, signal)).join(' | ')}`;
  } catch (error) {
    signal.throwIfAborted();
    return `what the kubelet said cannot be had: ${describeError(error)}`;
  }
}

/** The end of the log of its newest container; those before it have lower numbers, and what was rotated away a date. */
async function apiServerSaid(files: FilePort): Promise<readonly string[]> {
  const pods = await files.list(POD_LOGS);
  const pod = pods.filter((name) => name.startsWith('kube-system_kube-apiserver-')).at(-1);
  if (pod === undefined) return [];
  const folder = `${POD_LOGS}/${pod}/kube-apiserver`;
  const logs = (await files.list(folder)).filter((name) => /^[0-9]+\.log$/.test(name));
  const newest = logs.toSorted((a, b) => parseInt(a, 10) - parseInt(b, 10)).at(-1);
  if (newest === undefined) return [];
  const raw = (await files.read(`${folder}/${newest}`, MAX_LOG_BYTES)) ?? new Uint8Array();
  const text = Buffer.from(raw).toString('utf8').trim();
  return text === '' ? [] : text.split('\n').slice(-3);
}
