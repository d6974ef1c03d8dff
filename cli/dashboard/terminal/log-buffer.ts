import { childSignal, type ChildSignal } from '../../../internal/cleanup/index.ts';
import type { CommandContext } from '../../app/command.ts';
import { readPart } from '../../cluster/index.ts';
import { followRunnable } from '../../nodes/index.ts';
import { quietContext } from '../collect/quiet-context.ts';
import { isRefusal } from '../model/source.ts';
import type { LogTarget } from './ui-state.ts';
import type { LogView } from './view.ts';

/** Older lines are in the log of the node. */
const MAX_LINES = 2_000;

/** The lines of the log that is on the terminal; one log at a time. */
export class LogBuffer implements Disposable {
  readonly #context: CommandContext;
  readonly #onChange: () => void;
  #lines: readonly string[] = [];
  #error: string | undefined;
  #target: LogTarget | undefined;
  #stopping: ChildSignal | undefined;

  /** @param onChange called after each change of the lines */
  constructor(context: CommandContext, onChange: () => void) {
    this.#context = context;
    this.#onChange = onChange;
  }

  get view(): LogView {
    return { lines: this.#lines, error: this.#error };
  }

  /** Shows the log of a target from now on; undefined shows none. */
  show(target: LogTarget | undefined): void {
    if (target === this.#target) return;
    this[Symbol.dispose]();
    [this.#target, this.#lines, this.#error] = [target, [], undefined];
    if (target !== undefined) void this.#follow(target, (this.#stopping = childSignal(this.#context.signal)));
  }

  [Symbol.dispose](): void {
    this.#stopping?.abort(new Error('the log is not shown any longer'));
    this.#stopping?.[Symbol.dispose]();
    this.#stopping = undefined;
  }

  async #follow(target: LogTarget, { signal }: ChildSignal): Promise<void> {
    try {
      const context = quietContext(this.#context, signal);
      const part = await readPart(context, () =>
        followRunnable(context, target, (lines) => {
          if (signal.aborted) return;
          this.#lines = [...this.#lines, ...lines].slice(-MAX_LINES);
          this.#onChange();
        }),
      );
      if (!part.ok && isRefusal(part)) this.#lines = [];
      this.#error = part.ok ? 'The node has ended the log.' : part.error;
      this.#onChange();
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  }
}
