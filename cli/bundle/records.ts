import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { z } from 'zod';
import type { BlobStore, Digest } from '../../internal/bundle/index.ts';
import type { BundleContext } from './context.ts';

const MAX_RECORD_BYTES = 8 * 1024;

/** What came of a recipe the last time. */
export interface Outcome extends Digest {
  readonly source: string;
}

const outcome = z.strictObject({
  sha256: z.string().regex(/^[0-9a-f]{64}$/),
  sizeBytes: z.int().positive(),
  source: z.string().min(1).max(1000),
});

/**
 * Remembers `<cache>/recipes/<hash of the recipe>.json` → blob, so that a build only makes what is new.
 * A record is a hint: without its blob, or damaged, it counts for nothing.
 */
export class Records {
  readonly #files: BundleContext['ports']['files'];
  readonly #folder: string;
  readonly #store: BlobStore;

  constructor(context: Pick<BundleContext, 'ports' | 'cache'>, store: BlobStore) {
    this.#files = context.ports.files;
    this.#folder = join(context.cache, 'recipes');
    this.#store = store;
  }

  async find(key: string): Promise<Outcome | undefined> {
    const bytes = await this.#files.read(join(this.#folder, `${key}.json`), MAX_RECORD_BYTES);
    if (bytes === undefined) return undefined;
    const parsed = outcome.safeParse(parseJson(bytes));
    if (!parsed.success || !(await this.#store.has(parsed.data.sha256))) return undefined;
    return parsed.data;
  }

  async remember(key: string, made: Outcome): Promise<void> {
    await this.#files.makeDirectory(this.#folder);
    await this.#files.writeAtomic(join(this.#folder, `${key}.json`), `${JSON.stringify(made)}\n`, {
      mode: 0o644,
    });
  }
}

/** A name for a recipe: the hash of everything that decides about its bytes, whatever the order of fields. */
export function recipeKey(parts: unknown): string {
  return createHash('sha256').update(JSON.stringify(parts, sortingFields)).digest('hex');
}

function sortingFields(_key: string, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)));
}

function parseJson(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(Buffer.from(bytes).toString());
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}
