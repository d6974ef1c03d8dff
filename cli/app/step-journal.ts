import type { AppHost } from '../host/index.ts';

/** More titles than these would not fit on one line. */
const MAX_TITLES = 3;

/** The steps that a command has shown, so that a user who interrupts it is told where it stopped. */
export class StepJournal {
  readonly #done: string[] = [];
  /** Steps that run or failed, outer steps first. */
  readonly #open: string[] = [];

  /** The same host, with its steps recorded. */
  watch(host: AppHost): AppHost {
    const step: AppHost['step'] = async (code, title, work) => {
      this.#open.push(title);
      const value = await host.step(code, title, work);
      this.#open.splice(this.#open.lastIndexOf(title), 1);
      this.#done.push(title);
      return value;
    };
    return new Proxy(host, {
      get: (target, name) => {
        if (name === 'step') return step;
        const member: unknown = Reflect.get(target, name, target);
        return typeof member === 'function' ? (member.bind(target) as unknown) : member;
      },
    });
  }

  /** The titles of the steps that are done, and of those that are not. */
  get state(): { readonly done: readonly string[]; readonly unfinished: readonly string[] } {
    return { done: [...this.#done], unfinished: [...this.#open] };
  }

  /** The state in one line. */
  describe(): string {
    const [done, last] = [this.#done, this.#done.at(-1)];
    const unfinished = this.#open.at(-1);
    const finished =
      done.length > MAX_TITLES ? `${done.length} steps, the last one "${last}"` : `"${done.join('", "')}"`;
    return [
      'interrupted.',
      ...(last === undefined ? [] : [`Done: ${finished}.`]),
      ...(unfinished === undefined ? [] : [`Not finished: "${unfinished}".`]),
      'Run the same command again to continue.',
    ].join(' ');
  }
}
