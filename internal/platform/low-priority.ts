import { getPriority, setPriority } from 'node:os';

/** Niceness (nice(2)) while background work runs: about a tenth of the processor time if others want it too. */
const BACKGROUND = 10;

/**
 * Makes the main thread of this process give way to other programs while background work runs, of which there may be several pieces at
 * once. On Linux, setpriority(2) of a process id changes the thread of that id only, so the threads of the pool keep their priority.
 */
export class LowPriority {
  readonly #set: (niceness: number) => void;
  readonly #normal: number;
  #users = 0;

  /** @param normal the niceness that systemd has given this process: that of the unit or of an operator's drop-in */
  constructor(set: (niceness: number) => void = setPriority, normal = getPriority()) {
    this.#set = set;
    this.#normal = normal;
  }

  /** To be disposed when the work ends. */
  begin(): Disposable {
    if (this.#users++ === 0) this.#trySet(Math.max(BACKGROUND, this.#normal));
    return {
      [Symbol.dispose]: () => {
        if (--this.#users === 0) this.#trySet(this.#normal);
      },
    };
  }

  /** Without the right to raise it again (CAP_SYS_NICE), the priority stays as it is. */
  #trySet(niceness: number): void {
    try {
      this.#set(niceness);
    } catch {
      // The work matters more than its priority.
    }
  }
}
