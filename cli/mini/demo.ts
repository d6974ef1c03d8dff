import { withTimeout } from '../../internal/cleanup/index.ts';
import { formatDuration, type Clock } from '../../internal/clock/index.ts';
import type { ChartConfig } from '../../internal/config/index.ts';
import { formatEndpoint } from '../../internal/endpoint/index.ts';
import type { CommandContext } from '../app/command.ts';
import { MiniError } from './errors.ts';

/** NodePort of the sample service, in the default range of Kubernetes. */
const NODE_PORT = 30080;
const ANSWER_MS = 60_000;
const POLL_MS = 250;
const TRY_MS = 5_000;

/** The sample chart of the bundle. */
export const demoChart: Partial<ChartConfig> = {
  name: 'hello',
  chart: 'bundle:hello',
  values: { service: { nodePort: NODE_PORT } },
};

/** Requests the sample service through its NodePort until it responds. @throws MiniError `mini-demo-timeout` */
export async function askDemo(
  context: CommandContext,
  address: string,
): Promise<{ readonly url: string; readonly answer: string }> {
  const { clock } = context.ports;
  const url = `http://${formatEndpoint(address, NODE_PORT)}/`;
  return context.host.step('mini-demo', `Querying the sample chart at ${url}`, async () => {
    const deadlineMs = clock.monotonicMs() + ANSWER_MS;
    for (;;) {
      const response = await requestOnce(url, { clock, signal: context.signal });
      if (response.answer !== undefined) return { url, answer: response.answer };
      if (clock.monotonicMs() >= deadlineMs) {
        throw new MiniError(
          'mini-demo-timeout',
          `no response from ${url} within ${formatDuration(ANSWER_MS)}`,
          {
            cause: response.error,
          },
        );
      }
      await clock.sleep(POLL_MS, context.signal);
    }
  });
}

type Response = { readonly answer: string } | { readonly answer: undefined; readonly error: unknown };

/** One request; a server that accepts it and does not respond times out. Exported for its test. */
export async function requestOnce(
  url: string,
  { clock, signal }: { readonly clock: Clock; readonly signal: AbortSignal },
): Promise<Response> {
  try {
    return await withTimeout({ what: `requesting ${url}`, ms: TRY_MS, clock, signal }, async (trying) => {
      const response = await fetch(url, { signal: trying });
      const text = await response.text();
      if (response.ok) return { answer: text.trim() };
      return { answer: undefined, error: new Error(`HTTP ${response.status}: ${text.slice(0, 200)}`) };
    });
  } catch (error) {
    signal.throwIfAborted();
    return { answer: undefined, error };
  }
}
