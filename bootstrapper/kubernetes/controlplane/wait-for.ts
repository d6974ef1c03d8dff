import { formatDuration } from '../../../internal/clock/index.ts';
import { describeError } from '../../../internal/errors/index.ts';
import { readText, type FilePort } from '../../../internal/file/index.ts';
import type { SystemPorts } from '../../../internal/platform/index.ts';
import type { PhaseProgress } from '../../phases/index.ts';
import { KubernetesError } from '../errors.ts';
import { KUBELET_UNIT } from '../node/units.ts';

const POLL_MS = 250;
const POD_LOGS = '/var/log/pods';
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
 * after a timeout includes the end of the log of the API server or the kubelet.
 * @throws KubernetesError `kubernetes-api-timeout`, `kubernetes-kubelet-failed`
 */
export async function waitFor(ports: WaitPorts, wait: Wait, attempt: () => Promise<void>): Promise<void> {
  const { clock } = ports;
  const endMs = clock.monotonicMs() + wait.timeoutMs;
  for (let polls = 0; ; polls++) {
    try {
      return await attempt();
    } catch (error) {
      wait.signal.throwIfAborted();
      wait.progress.report(wait.what, { lastError: error });
      if (polls % 20 === 19) await refuseFailingKubelet(ports, wait);
      if (clock.monotonicMs() > endMs) {
        const log = await logTail(ports, wait.signal);
        const message = `${wait.what} for ${formatDuration(wait.timeoutMs)}: ${log}`;
        throw new KubernetesError('kubernetes-api-timeout', message, { cause: error });
      }
    }
    await clock.sleep(POLL_MS, wait.signal);
  }
}

/** Throws if the kubelet fails repeatedly: its log has the reason, and waiting longer would only hide it. */
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

/**
 * Reads the end of the log of the newest container. Logs of earlier containers have lower numbers, and
 * rotated logs have a date.
 */
async function apiServerLog(files: FilePort): Promise<readonly string[]> {
  const pods = await files.list(POD_LOGS);
  const pod = pods.filter((name) => name.startsWith('kube-system_kube-apiserver-')).at(-1);
  if (pod === undefined) return [];
  const directory = `${POD_LOGS}/${pod}/kube-apiserver`;
  const logs = (await files.list(directory)).filter((name) => /^[0-9]+\.log$/.test(name));
  const newest = logs.toSorted((a, b) => parseInt(a, 10) - parseInt(b, 10)).at(-1);
  if (newest === undefined) return [];
  const text = ((await readText(files, `${directory}/${newest}`, MAX_LOG_BYTES)) ?? '').trim();
  return text === '' ? [] : text.split('\n').slice(-3);
}
