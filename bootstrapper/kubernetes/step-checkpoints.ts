import { createHash } from 'node:crypto';
import { readText, type FilePort } from '../../internal/file/index.ts';
import { PATHS } from './settings.ts';

/**
 * Records in one file which steps are complete, each with a hash of its inputs. A checkpoint is written after
 * its step, so a crash in between repeats the step; every step may be repeated. An unreadable file therefore
 * counts as empty: the steps are repeated.
 */
export class StepCheckpoints {
  readonly #files: FilePort;

  constructor(files: FilePort) {
    this.#files = files;
  }

  /** Whether the step is complete with these inputs. */
  async isDone(step: string, inputs: unknown): Promise<boolean> {
    return (await this.#read())[step] === digestOf(inputs);
  }

  /** Records that the step is complete. `inputs`: any JSON value. */
  async record(step: string, inputs: unknown): Promise<void> {
    const checkpoints = { ...(await this.#read()), [step]: digestOf(inputs) };
    await this.#files.writeAtomic(PATHS.stepCheckpoints, `${JSON.stringify(checkpoints)}\n`);
  }

  /**
   * Deletes the checkpoints of these steps in one write. Parallel calls therefore leave none of these
   * checkpoints behind.
   */
  async clear(steps: readonly string[]): Promise<void> {
    const kept = Object.entries(await this.#read()).filter(([name]) => !steps.includes(name));
    await this.#files.writeAtomic(PATHS.stepCheckpoints, `${JSON.stringify(Object.fromEntries(kept))}\n`);
  }

  async #read(): Promise<Record<string, unknown>> {
    const text = await readText(this.#files, PATHS.stepCheckpoints);
    if (text === undefined) return {};
    try {
      const value: unknown = JSON.parse(text);
      return typeof value === 'object' && value !== null ? { ...value } : {};
    } catch {
      return {};
    }
  }
}

function digestOf(inputs: unknown): string {
  return createHash('sha256').update(JSON.stringify(inputs)).digest('hex');
}
