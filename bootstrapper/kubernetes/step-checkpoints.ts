import { createHash } from 'node:crypto';
import type { FilePort } from '../../internal/file/index.ts';
import { PATHS } from './settings.ts';

const MAX_BYTES = 64 * 1024;

/**
 * What has been done with which inputs. A mark is written after its work is complete, so a crash between the two only
 * repeats work that may be repeated. Unreadable marks count as absent for the same reason.
 */
export class StepCheckpoints {
  readonly #files: FilePort;

  constructor(files: FilePort) {
    this.#files = files;
  }

  async isDone(name: string, inputs: unknown): Promise<boolean> {
    return (await this.#read())[name] === digestOf(inputs);
  }

  async record(name: string, inputs: unknown): Promise<void> {
    const marks = { ...(await this.#read()), [name]: digestOf(inputs) };
    await this.#files.writeAtomic(PATHS.stepCheckpoints, `${JSON.stringify(marks)}\n`);
  }

  /** All of them in one write: two who unset the same ones at once leave none of them behind. */
  async clear(names: readonly string[]): Promise<void> {
    const kept = Object.entries(await this.#read()).filter(([name]) => !names.includes(name));
    await this.#files.writeAtomic(PATHS.stepCheckpoints, `${JSON.stringify(Object.fromEntries(kept))}\n`);
  }

  async #read(): Promise<Record<string, unknown>> {
    const raw = await this.#files.read(PATHS.stepCheckpoints, MAX_BYTES);
    if (raw === undefined) return {};
    try {
      const value: unknown = JSON.parse(Buffer.from(raw).toString('utf8'));
      return typeof value === 'object' && value !== null ? { ...value } : {};
    } catch {
      return {};
    }
  }
}

function digestOf(inputs: unknown): string {
  return createHash('sha256').update(JSON.stringify(inputs)).digest('hex');
}
