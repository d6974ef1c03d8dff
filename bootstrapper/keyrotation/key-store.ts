import { dirname } from 'node:path';
import { z } from 'zod';
import { readText, type FilePort } from '../../internal/file/index.ts';
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

/**
 * Stage (generation and phase) of a node that has taken part in no rotation: the node has the keys that its
 * cluster was created with.
 */
export const INITIAL_STAGE: KeyStage = { generation: 1, phase: 'done' };

const stageShape = z.strictObject({
  version: z.literal(1),
  generation: z.int().positive(),
  phase: z.enum(KEY_PHASES),
});

/** Paths of the files of a rotation. */
export interface KeyPaths {
  /** The keys of two generations. This file exists only on control planes. */
  readonly rotation: string;
  /** The stage that this node has completed. */
  readonly stage: string;
  /** The key that is deleted last when the node loses the control-plane role. */
  readonly lastKey: string;
}

/** The keys and the stage of a rotation on this node's disk. */
export class KeyStore {
  readonly #files: FilePort;
  readonly #paths: KeyPaths;

  constructor(files: FilePort, paths: KeyPaths) {
    this.#files = files;
    this.#paths = paths;
  }

  /** The keys of a rotation; undefined without one. @throws KeySetError `keyset-invalid` */
  async loadSet(): Promise<KeySet | undefined> {
    const text = await readText(this.#files, this.#paths.rotation);
    return text === undefined ? undefined : parseKeySet(this.#paths.rotation, text);
  }

  async saveSet(set: KeySet): Promise<void> {
    await this.#write(this.#paths.rotation, encodeKeySet(set).reveal());
  }

  /**
   * Saves the keys of a ticket, in the phase of the control plane that issued it. Keys on disk that are in a later phase are
   * kept.
   */
  async adoptSet(text: Secret<string>): Promise<void> {
    const given = parseKeySet('keys in the ticket', text.reveal());
    const here = await this.loadSet();
    if (here !== undefined && hasReached(here, given)) return;
    await this.saveSet(given);
    await this.saveStage(given);
  }

  /**
   * The stage (generation and phase) that is completed. An unreadable file counts as the initial stage, because
   * every phase may be repeated.
   */
  async loadStage(): Promise<KeyStage> {
    return stageFrom(await readText(this.#files, this.#paths.stage));
  }

  async saveStage({ generation, phase }: KeyStage): Promise<void> {
    await this.#write(this.#paths.stage, `${JSON.stringify({ version: 1, generation, phase })}\n`);
  }

  /**
   * Whether a phase is on disk but not active yet. Until this node gets the membership slots of etcd, its
   * processes are not restarted, not even after a restart of the agent. Keys in phase `hand` were only
   * distributed and are not to be activated.
   */
  async isActivationPending(): Promise<boolean> {
    const set = await this.loadSet();
    return (
      set !== undefined && isPhaseAtLeast(set.phase, 'believe') && !hasReached(await this.loadStage(), set)
    );
  }

  /** Whether private keys are on this disk. */
  async holdsKeys(): Promise<boolean> {
    const { rotation, lastKey } = this.#paths;
    const found = await Promise.all([rotation, lastKey].map((path) => this.#files.stat(path)));
    return found.some((stat) => stat !== undefined);
  }

  async #write(path: string, text: string): Promise<void> {
    await this.#files.makeDirectory(dirname(path));
    await this.#files.writeAtomic(path, text);
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
