import type { ChecksummedFile } from '../membership/index.ts';

const MAX_ENDPOINTS = 16;

/** Endpoints that somebody told this machine: an owner over the init port, or root with `cluster join`. */
export class OperatorEndpoints {
  readonly #file: ChecksummedFile<readonly string[]>;
  #list: readonly string[] = [];

  constructor(file: ChecksummedFile<readonly string[]>) {
    this.#file = file;
  }

  get list(): readonly string[] {
    return this.#list;
  }

  async restore(): Promise<void> {
    this.#list = (await this.#file.load()) ?? [];
  }

  /** The newest first; on disk when it resolves. */
  async add(endpoints: readonly string[]): Promise<void> {
    const list = [...new Set([...endpoints, ...this.#list])].slice(0, MAX_ENDPOINTS);
    if (list.join() === this.#list.join()) return;
    await this.#file.save(list);
    this.#list = list;
  }
}
