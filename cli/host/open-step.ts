import type { Host, StepProgress } from './host.ts';

/** A step that events start, update and end, instead of one function. */
export class OpenStep {
  readonly #outcome = Promise.withResolvers<void>();
  readonly #shown: Promise<void>;
  #progress: StepProgress | undefined;

  constructor(host: Host, code: string, title: string) {
    this.#shown = host
      .step(code, title, (progress) => {
        this.#progress = progress;
        return this.#outcome.promise;
      })
      .catch(() => undefined); // the caller of end() reports the error
  }

  /** Shows the current activity. */
  readonly update: StepProgress['update'] = (text, done) => this.#progress?.update(text, done);

  /** Ends the step, as failed if there is an error. Resolves when the host has shown it; later calls change nothing. */
  end(error?: unknown): Promise<void> {
    if (error === undefined) this.#outcome.resolve();
    else this.#outcome.reject(error);
    return this.#shown;
  }
}
