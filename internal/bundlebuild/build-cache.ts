import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { z } from 'zod';
import type { BlobStore, Digest } from '../bundle/index.ts';
import { canonicalJson } from '../crypto/index.ts';
import type { BuildContext } from './build-context.ts';

const MAX_RECORD_BYTES = 8 * 1024;

/** The file of a component in the store, and where its bytes come from. */
export interface BuiltComponent extends Digest {
  /** For people: modules with versions and the compilers, or addresses. */
  readonly source: string;
}

const builtComponent = z.strictObject({
  sha256: z.string().regex(/^[0-9a-f]{64}$/),
  sizeBytes: z.int().positive(),
  source: z.string().min(1).max(1000),
});

/**
 * Remembers which file was built from a recipe, in `<cache>/recipes/<recipe key>.json`, so that a build
 * makes only missing components. A record that is damaged, or whose file is not in the store, is ignored.
 */
export class BuildCache {
  readonly #files: BuildContext['ports']['files'];
  readonly #directory: string;
  readonly #store: BlobStore;

  constructor(context: Pick<BuildContext, 'ports' | 'cache'>, store: BlobStore) {
    this.#files = context.ports.files;
    this.#directory = join(context.cache, 'recipes');
    this.#store = store;
  }

  /** The component that was built with this key (see `recipeKey`). */
  async find(key: string): Promise<BuiltComponent | undefined> {
    const bytes = await this.#files.read(this.#path(key), MAX_RECORD_BYTES);
    if (bytes === undefined) return undefined;
    const parsed = builtComponent.safeParse(parseJson(bytes));
    if (!parsed.success || !(await this.#store.has(parsed.data.sha256))) return undefined;
    return parsed.data;
  }

  async save(key: string, component: BuiltComponent): Promise<void> {
    await this.#files.makeDirectory(this.#directory);
    await this.#files.writeAtomic(this.#path(key), `${JSON.stringify(component)}\n`, { mode: 0o644 });
  }

  #path(key: string): string {
    return join(this.#directory, `${key}.json`);
  }
}

/**
 * The key of a recipe: a hash of everything that influences the bytes of its component, independent of the
 * order of fields.
 */
export function recipeKey(inputs: unknown): string {
  return createHash('sha256').update(canonicalJson(inputs)).digest('hex');
}

function parseJson(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(Buffer.from(bytes).toString());
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}
