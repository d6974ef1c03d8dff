import { formatDuration } from '../../../internal/clock/index.ts';
import { describeError } from '../../../internal/errors/index.ts';
import { readText, type FilePort } from '../../../internal/file/index.ts';
import type { SystemPorts } from '../../../internal/platform/index.ts';
import type { PhaseProgress } from '../../phases/index.ts';
import { KubernetesError } from '../errors.ts';
import { KUBELET_UNIT } from '../node/units.ts';

const POLL_MS = 250;
const POD_LOGS = '/var/log/pods';
const MAX_API_RESTARTS = 4;
/** The kubelet rotates container logs at 10 MiB (containerLogMaxSize). */
const MAX_LOG_BYTES = 16 * 1024 * 1024;

/** One wait: its subject, its timeout, and its progress output. */
export interface Wait {
  readonly what: string;
  readonly timeoutMs: number;
  readonly progress: PhaseProgress;
  readonly signal: AbortSignal;
}

/** Ports (injected dependencies) of the wait. */
export type WaitPorts = Pick<SystemPorts, 'files' | 'units' | 'clock'>;

/**
 * Repeats `attempt` until it resolves. Meanwhile, reports the last error of `attempt` as progress. The error
 * after a timeout includes the end of the log of the API server or the kubelet. A kubelet or an API server that
 * keeps failing ends the wait early: its log has the reason, and waiting longer would only hide it.
 * @throws KubernetesError `kubernetes-api-timeout`, `kubernetes-kubelet-failed`
 */
export async function waitFor(ports: WaitPorts, wait: Wait, attempt: () => Promise<void>): Promise<void> {
  const { clock } = ports;
  const endMs = clock.monotonicMs() + wait.timeoutMs;
  const firstStart = await apiServerStarts(ports.files);
  for (let polls = 0; ; polls++) {
    try {
      return await attempt();
    } catch (error) {
      wait.signal.throwIfAborted();
      wait.progress.report(wait.what, { lastError: error });
      if (polls % 20 === 19) {
        await refuseFailingKubelet(ports, wait);
        await refuseFailingApiServer(ports, wait, firstStart);
      }
      if (clock.monotonicMs() > endMs) {
        const log = await logTail(ports, wait.signal);
        const message = `${wait.what} for ${formatDuration(wait.timeoutMs)}: ${log}`;
        throw new KubernetesError('kubernetes-api-timeout', message, { cause: error });
      }
    }
    await clock.sleep(POLL_MS, wait.signal);
  }
}

/** Throws if the kubelet fails repeatedly. */
async function refuseFailingKubelet({ units }: WaitPorts, wait: Wait): Promise<void> {
  const status = await units.status(KUBELET_UNIT, wait.signal);
  if (status.restarts < 5 || status.sub === 'running') return;
  const log = await units.recentLog(KUBELET_UNIT, 5, wait.signal);
  throw new KubernetesError(
    'kubernetes-kubelet-failed',
    `${wait.what}: the kubelet failed ${status.restarts} times: ${log.join(' | ')}`,
  );
}

/**
 * Throws if the kubelet started the API server again several times. It waits 10 s before it does so for the first time,
 * and each time twice as long as before (Kubernetes: CrashLoopBackOff).
 */
async function refuseFailingApiServer(ports: WaitPorts, wait: Wait, firstStart: number): Promise<void> {
  const restarts = (await apiServerStarts(ports.files)) - Math.max(firstStart, 1);
  if (restarts < MAX_API_RESTARTS) return;
  const log = await logTail(ports, wait.signal);
  const message = `${wait.what}: it was started again ${restarts} times: ${log}`;
  throw new KubernetesError('kubernetes-api-timeout', message);
}

/**
 * Reads the end of the log of the API server, or of the kubelet if the API server has no log. Rejects only if
 * the signal is aborted.
 */
async function logTail(ports: WaitPorts, signal: AbortSignal): Promise<string> {
  try {
    const server = await apiServerLog(ports.files);
    if (server.length > 0) return `log of the API server: ${server.join(' | ')}`;
  } catch {
    // The log is too large, or it was deleted in the meantime.
  }
  try {
    return `log of the kubelet: ${(await ports.units.recentLog(KUBELET_UNIT, 3, signal)).join(' | ')}`;
  } catch (error) {
    signal.throwIfAborted();
    return `log of the kubelet not available: ${describeError(error)}`;
  }
}

/** Reads the end of the log of the newest container. */
async function apiServerLog(files: FilePort): Promise<readonly string[]> {
  const newest = (await apiServerLogs(files)).at(-1);
  const text = newest && ((await readText(files, newest, MAX_LOG_BYTES)) ?? '').trim();
  return text ? text.split('\n').slice(-3) : [];
}

/** How often the kubelet has started the API server of its newest pod; 0 if it has not yet. */
async function apiServerStarts(files: FilePort): Promise<number> {
  const newest = (await apiServerLogs(files)).at(-1);
  return newest === undefined ? 0 : parseInt(newest.slice(newest.lastIndexOf('/') + 1), 10) + 1;
}

/**
 * Paths of the logs of the API server's newest pod, one per container, oldest first. The names are the numbers of the
 * containers; rotated logs have a date too.
 */
async function apiServerLogs(files: FilePort): Promise<readonly string[]> {
  const pods = await files.list(POD_LOGS);
  const pod = pods.filter((name) => name.startsWith('kube-system_kube-apiserver-')).at(-1);
  if (pod === undefined) return [];
  const directory = `${POD_LOGS}/${pod}/kube-apiserver`;
  const logs = (await files.list(directory)).filter((name) => /^[0-9]+\.log$/.test(name));
  return logs.toSorted((a, b) => parseInt(a, 10) - parseInt(b, 10)).map((name) => `${directory}/${name}`);
}
