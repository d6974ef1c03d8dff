import { formatDuration, type Clock } from '../clock/index.ts';
import { describeError } from '../errors/index.ts';
import { isForbidden, type KubeClient, KubeError } from './client/index.ts';
import { listNodes, readinessOf } from './objects.ts';

const POLL_MS = 500;

/** How long to wait, and how to report progress. */
interface WaitOptions {
  readonly clock: Clock;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
  /** Called with the reason of each failed attempt. */
  readonly onWait?: (text: string) => void;
}

/**
 * Waits until /readyz of the API server returns ok. Every authenticated client may read it once the first start of the
 * API server has written the default roles.
 * @throws KubeError `kube-unreachable`, `kube-wait-timeout`, with the last cause; `kube-refused` when the API server
 * does not accept the credentials
 */
export async function waitForApi(client: KubeClient, options: WaitOptions): Promise<void> {
  await poll(`waiting for the Kubernetes API at ${client.server}`, options, async () => {
    try {
      await client.getText('/readyz', options.signal);
      return undefined;
    } catch (error) {
      if (isForbidden(error)) return describeError(error);
      throw error;
    }
  });
}

/** Waits until a node is Ready. @throws KubeError `kube-wait-timeout`, with the kubelet's reason */
export async function waitForNodeReady(
  client: KubeClient,
  name: string,
  options: WaitOptions,
): Promise<void> {
  await poll(`waiting for node ${name}`, options, async () => {
    const node = (await listNodes(client, options.signal)).find((each) => each.metadata.name === name);
    if (node === undefined) return 'not registered yet';
    const { ready, why } = readinessOf(node);
    return ready ? undefined : why;
  });
}

/** Repeats `ask` until it returns undefined. Errors that are not retryable end the wait. */
async function poll(
  doing: string,
  options: WaitOptions,
  ask: () => Promise<string | undefined>,
): Promise<void> {
  const { clock, timeoutMs, signal, onWait } = options;
  const deadlineMs = clock.monotonicMs() + timeoutMs;
  for (;;) {
    let why: string | undefined;
    let cause: unknown;
    try {
      why = await ask();
    } catch (error) {
      if (!(error instanceof KubeError) || !error.retryable) throw error;
      cause = error;
      why = describeError(error);
    }
    if (why === undefined) return;
    onWait?.(why);
    if (clock.monotonicMs() >= deadlineMs) {
      const timeout = formatDuration(timeoutMs);
      throw cause === undefined
        ? new KubeError('kube-wait-timeout', `${doing} for ${timeout}: ${why}`)
        : new KubeError('kube-unreachable', `${doing} for ${timeout}`, { cause });
    }
    await clock.sleep(POLL_MS, signal);
  }
}
