import { z } from 'zod';
import type { FilePort } from '../../internal/file/index.ts';
import {
  encodeKeySet,
  hasReached,
  isPhaseAtLeast,
  KEY_PHASES,
  parseKeySet,
  type KeySet,
  type KeyStage,
} from '../../internal/keyset/index.ts';
import type { Secret } from '../../internal/secret/index.ts';

const MAX_BYTES = 64 * 1024;
/** Of a node that has never taken part: the keys that its cluster was made with. */
export const INITIAL_STAGE: KeyStage = { generation: 1, phase: 'done' };

const stageShape = z.strictObject({
  version: z.literal(1),
  generation: z.int().positive(),
  phase: z.enum(KEY_PHASES),
});

export interface KeyPaths {
  /** The keys of two generations; control planes only. */
  readonly rotation: string;
  /** What this node has finished. */
  readonly stage: string;
  /** The key that a control plane loses last when its role goes. */
  readonly lastKey: string;
}

/** What this node has on disk of a rotation. */
export class KeyStore {
  readonly #files: FilePort;
  readonly #places: KeyPaths;

  constructor(files: FilePort, places: KeyPaths) {
    this.#files = files;
    this.#places = places;
  }

  /** Throws `keyset-invalid`. */
  async loadSet(): Promise<KeySet | undefined> {
    const text = await this.#text(this.#places.rotation);
    return text === undefined ? undefined : parseKeySet(this.#places.rotation, text);
  }

  async saveSet(set: KeySet): Promise<void> {
    await this.#makeFolder(this.#places.rotation);
    await this.#files.writeAtomic(this.#places.rotation, encodeKeySet(set).reveal());
  }

  /**
   * What came with a ticket: of the phase that the control plane was in that signed it. Keys that are here already and are
   * further stay.
   */
  async adoptSet(text: Secret<string>): Promise<void> {
    const given = parseKeySet('the keys in a ticket', text.reveal());
    const here = await this.loadSet();
    if (here !== undefined && hasReached(here, given)) return;
    await this.saveSet(given);
    await this.saveStage(given);
  }

  /** What cannot be read is none: each phase may be done again. */
  async loadStage(): Promise<KeyStage> {
    return stageFrom(await this.#text(this.#places.stage));
  }

  async saveStage({ generation, phase }: KeyStage): Promise<void> {
    await this.#makeFolder(this.#places.stage);
    await this.#files.writeAtomic(
      this.#places.stage,
      `${JSON.stringify({ version: 1, generation, phase })}\n`,
    );
  }

  /**
   * Whether a phase is on disk that is not in force: what runs stays as it is until this node's turn, also in another life
   * of the agent. Of keys that were only handed to it nothing is in force, and nothing is to be.
   */
  async isActivationPending(): Promise<boolean> {
    const set = await this.loadSet();
    return (
      set !== undefined && isPhaseAtLeast(set.phase, 'believe') && !hasReached(await this.loadStage(), set)
    );
  }

  /** Whether private halves are here. */
  async holdsKeys(): Promise<boolean> {
    const { rotation, lastKey } = this.#places;
    const found = await Promise.all([rotation, lastKey].map((path) => this.#files.stat(path)));
    return found.some((stat) => stat !== undefined);
  }

  async #text(path: string): Promise<string | undefined> {
    const bytes = await this.#files.read(path, MAX_BYTES);
    return bytes === undefined ? undefined : Buffer.from(bytes).toString('utf8');
  }

  async #makeFolder(path: string): Promise<void> {
    await this.#files.makeDirectory(path.slice(0, path.lastIndexOf('/')));
  }
}

function stageFrom(text: string | undefined): KeyStage {
  try {
    const { generation, phase } = stageShape.parse(JSON.parse(text ?? ''));
    return { generation, phase };
  } catch {
    return INITIAL_STAGE;
  }
}
