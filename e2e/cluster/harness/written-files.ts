import { readdir, stat } from 'node:fs/promises';
import { join, relative } from 'node:path';

/** Observes which files a program writes into some directories. Temporary files (`.NAME.…`) do not count. */
export class WrittenFiles {
  readonly #root: string;
  readonly #directories: readonly string[];
  #known: ReadonlyMap<string, string> = new Map();

  constructor(root: string, directories: readonly string[]) {
    this.#root = root;
    this.#directories = directories;
  }

  /** Files that were created or replaced since the last `settle`, oldest first. */
  async changed(): Promise<readonly string[]> {
    const now = await this.#read();
    return [...now]
      .filter(([path, { version }]) => this.#known.get(path) !== version)
      .toSorted(([, a], [, b]) => a.timeMs - b.timeMs)
      .map(([path]) => path);
  }

  async settle(): Promise<void> {
    this.#known = new Map([...(await this.#read())].map(([path, { version }]) => [path, version]));
  }

  async #read(): Promise<ReadonlyMap<string, { readonly version: string; readonly timeMs: number }>> {
    const found = await Promise.all(
      this.#directories.map(async (directory) => {
        const entries = await readdir(join(this.#root, directory), {
          withFileTypes: true,
          recursive: true,
        }).catch(() => []);
        return entries
          .filter((entry) => entry.isFile() && !entry.name.startsWith('.'))
          .map(({ parentPath, name }) => join(parentPath, name));
      }),
    );
    const files = await Promise.all(
      found.flat().map(async (path) => {
        const facts = await stat(path).catch(() => undefined); // the file was renamed or deleted meanwhile
        if (facts === undefined) return undefined;
        const version = `${facts.ino} ${facts.mtimeMs} ${facts.size}`;
        return [relative(this.#root, path), { version, timeMs: facts.mtimeMs }] as const;
      }),
    );
    return new Map(files.filter((file) => file !== undefined));
  }
}
