import { withTimeout } from '../../internal/cleanup/index.ts';
import type { Clock } from '../../internal/clock/index.ts';
import type { ChartConfig } from '../../internal/config/index.ts';
import type { CommandContext } from '../app/command.ts';
import { MiniError } from './errors.ts';

/** A port of every node, inside Kubernetes' own range for them. */
const NODE_PORT = 30080;
const ANSWER_MS = 60_000;
const POLL_MS = 250;
const TRY_MS = 5_000;

/** The sample chart of the bundle, so that a new cluster has something that answers. */
export const demoChart: Partial<ChartConfig> = {
  name: 'hello',
  chart: 'bundle:hello',
  values: { service: { nodePort: NODE_PORT } },
};

/** What the chart's pod says, asked from this machine through the port of a node. */
export async function askDemo(
  context: CommandContext,
  address: string,
): Promise<{ readonly url: string; readonly answer: string }> {
  const { clock } = context.ports;
  const url = `http://${address}:${NODE_PORT}/`;
  return context.host.step('mini-demo', `Asking the sample chart at ${url}`, async () => {
    const deadlineMs = clock.monotonicMs() + ANSWER_MS;
    for (;;) {
      const said = await ask(url, { clock, signal: context.signal });
      if (said.answer !== undefined) return { url, answer: said.answer };
      if (clock.monotonicMs() >= deadlineMs) {
        throw new MiniError('mini-demo-timeout', `asking ${url} for ${ANSWER_MS / 1000} s`, {
          cause: said.error,
        });
      }
      await clock.sleep(POLL_MS, context.signal);
    }
  });
}

type Said = { readonly answer: string } | { readonly answer: undefined; readonly error: unknown };

/** One try: who takes the question and says nothing is asked again. */
export async function ask(
  url: string,
  { clock, signal }: { readonly clock: Clock; readonly signal: AbortSignal },
): Promise<Said> {
  try {
    return await withTimeout({ what: `asking ${url}`, ms: TRY_MS, clock, signal }, async (trying) => {
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
