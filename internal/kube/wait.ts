import type { Clock } from '../clock/index.ts';
import { describeError } from '../errors/index.ts';
import { isForbidden, type KubeClient } from './client.ts';
import { KubeError } from './errors.ts';
import { listNodes, readinessOf } from './objects.ts';

const POLL_MS = 500;

export interface WaitOptions {
  readonly clock: Clock;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
  /** What is waited for now and what the last try met. */
  readonly onWait?: (text: string) => void;
}

/**
 * Until /readyz of the API server says ok to us. Everybody it knows may ask for that, as soon as its first start has written
 * the roles that say so.
 * @throws KubeError `kube-unreachable`, `kube-wait-timeout`, with the last cause; `kube-refused` if it does not know us
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

/** Until the kubelet of a node says Ready. @throws KubeError `kube-wait-timeout`, with the kubelet's reason */
export async function waitForNodeReady(
  client: KubeClient,
  name: string,
  options: WaitOptions,
): Promise<void> {
  await poll(`waiting for node ${name}`, options, async () => {
    const node = (await listNodes(client, options.signal)).find((each) => each.metadata.name === name);
    if (node === undefined) return 'it is not registered yet';
    const { ready, why } = readinessOf(node);
    return ready ? undefined : why;
  });
}

/** Asks until the answer is undefined: nothing left to wait for. Refusals are not waited out. */
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
      const seconds = Math.round(timeoutMs / 1000);
      throw cause === undefined
        ? new KubeError('kube-wait-timeout', `${doing} for ${seconds} s: ${why}`)
        : new KubeError('kube-unreachable', `${doing} for ${seconds} s`, { cause });
    }
    await clock.sleep(POLL_MS, signal);
  }
}
