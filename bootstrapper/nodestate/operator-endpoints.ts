import type { ChecksummedFile } from '../membership/index.ts';

/** The most endpoints that an operator can add. */
export const MAX_ENDPOINTS = 16;

/** Endpoints of join services that an owner (over the init port) or root (with `cluster join`) has added. */
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

  /** Adds endpoints in front of the known ones; durable when the promise resolves. */
  async add(endpoints: readonly string[]): Promise<void> {
    const list = [...new Set([...endpoints, ...this.#list])].slice(0, MAX_ENDPOINTS);
    if (list.join() === this.#list.join()) return;
    await this.#file.save(list);
    this.#list = list;
  }
}
