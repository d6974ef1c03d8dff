import { childSignal, isDoneWithin } from '../../../internal/cleanup/index.ts';
import type { CommandContext } from '../../app/command.ts';
import { Collector } from '../collect/collector.ts';
import { quietContext } from '../collect/quiet-context.ts';
import { DashboardError } from '../errors.ts';
import { judge } from '../model/snapshot.ts';
import { LogBuffer } from './log-buffer.ts';
import { press, START, type UiState } from './ui-state.ts';
import { pageRowsOf, view } from './view.ts';

/** Ages on the screen grow without an event. */
const TICK_MS = 1_000;
/** At most 25 drawings a second, however fast the cluster changes. */
const FRAME_MS = 40;

/**
 * Draws the cluster on the terminal until the user quits. The terminal is restored on every end.
 * @throws DashboardError `dashboard-no-terminal`; ClusterError `cluster-not-initialized`
 */
export async function runTerminal(context: CommandContext): Promise<void> {
  using ending = childSignal(context.signal);
  const quiet = quietContext(context, ending.signal);
  let wake = Promise.withResolvers<void>();
  const redraw = (): void => wake.resolve();
  const collector = await Collector.open(quiet, redraw);
  using logs = new LogBuffer(quiet, redraw);
  let state: UiState | 'quit' = START;
  using screen = context.host.openFullScreen({
    onResize: redraw,
    onKey: (key) => {
      if (state === 'quit') return;
      const snapshot = judge(collector.observations, context.ports.clock.nowMs());
      const pageRows = pageRowsOf({ rows: screen?.rows ?? 0 });
      state = press(state, key, { snapshot, pageRows, logLines: logs.view.lines.length });
      redraw();
    },
  });
  if (screen === undefined)
    throw new DashboardError('dashboard-no-terminal', 'opening the dashboard: no terminal to draw on');
  const drawing = async (): Promise<void> => {
    const { clock } = context.ports;
    for (;;) {
      if (state === 'quit') return;
      logs.show(state.logs);
      const { columns, rows } = screen;
      const snapshot = judge(collector.observations, clock.nowMs());
      screen.draw(view(snapshot, { columns, rows, state, logs: logs.view }));
      const { signal } = ending;
      await isDoneWithin({ what: 'waiting for a change', ms: TICK_MS, clock, signal }, () => wake.promise);
      wake = Promise.withResolvers();
      await clock.sleep(FRAME_MS, signal);
    }
  };
  const reading = collector.run();
  try {
    await Promise.race([drawing(), reading]);
  } finally {
    ending.abort(new Error('the dashboard has ended'));
    await Promise.allSettled([reading]);
  }
}
