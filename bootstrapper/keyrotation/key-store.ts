import { dirname } from 'node:path';
import { z } from 'zod';
import { readText, type FilePort } from '../../internal/file/index.ts';
import {
  encodeKeySet,
  hasReached,
  isPhaseAtLeast,
  parseKeySet,
  storedPhase,
  type KeySet,
  type KeyStage,
} from '../../internal/keyset/index.ts';
import type { Floor } from '../../internal/ownerdocument/index.ts';
import type { Secret } from '../../internal/secret/index.ts';
import { KeyRotationError } from './errors.ts';

/**
 * Stage (generation and phase) of a node that has taken part in no rotation: the node has the keys that its
 * cluster was created with.
 */
export const INITIAL_STAGE: KeyStage = { generation: 1, phase: 'done' };

const floorShape = z.strictObject({ serial: z.int().min(0), sha256: z.string().optional() });
const stageShape = z.strictObject({
  version: z.literal(1),
  generation: z.int().positive(),
  phase: storedPhase,
  floors: z
    .strictObject({
      owners: floorShape.optional(),
      keys: floorShape.optional(),
      signedAfterMs: z.int().positive().optional(),
    })
    .optional(),
});

/** Paths of the files of a rotation. */
export interface KeyPaths {
  /** The keys of two generations. This file exists only on control planes. */
  readonly rotation: string;
  /** Keys that this control plane created and no owner has signed yet. */
  readonly newKeys: string;
  /** The stage that this node has completed. */
  readonly stage: string;
  /** The key that is deleted last when the node loses the control-plane role. */
  readonly lastKey: string;
}

/** The newest owner documents about keys and owners that this node has accepted. Older ones are refused. */
export interface KeyFloors {
  readonly owners?: Floor | undefined;
  readonly keys?: Floor | undefined;
  /** When this machine found an old copy of its disk (bootstrapper/rollback): documents signed before are refused. */
  readonly signedAfterMs?: number | undefined;
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
    return this.#readSet(this.#paths.rotation);
  }

  /**
   * Saves keys that this node uses or distributes. Deletes the keys that waited for an owner's signature: they are
   * either the same keys or obsolete.
   */
  async saveSet(set: KeySet): Promise<void> {
    await this.#write(this.#paths.rotation, encodeKeySet(set).reveal());
    await this.#files.remove(this.#paths.newKeys);
  }

  /** The keys that this control plane created and no owner has signed yet. @throws KeySetError `keyset-invalid` */
  async loadNewKeys(): Promise<KeySet | undefined> {
    return this.#readSet(this.#paths.newKeys);
  }

  /** Saves new keys that wait for an owner's signature. Nothing uses them, and no ticket contains them. */
  async saveNewKeys(set: KeySet): Promise<void> {
    await this.#write(this.#paths.newKeys, encodeKeySet(set).reveal());
  }

  /**
   * Saves the keys of a ticket, in the phase of the control plane that issued it. Keys on disk that are in a later phase are
   * kept.
   * @throws KeyRotationError `keyrotation-generation-old` if this node has used newer keys and lost them
   */
  async adoptSet(text: Secret<string>): Promise<void> {
    const given = parseKeySet('keys in the ticket', text.reveal());
    const here = await this.loadSet();
    if (here !== undefined && hasReached(here, given)) return;
    const { generation } = await this.loadStage();
    if (given.generation < generation) throw oldGeneration(given.generation, generation);
    await this.saveSet(given);
    await this.saveStage(given);
  }

  /**
   * The stage (generation and phase) that is completed.
   * @throws KeyRotationError `keyrotation-stage-damaged`: without the stage, the node would accept keys that it has replaced
   */
  async loadStage(): Promise<KeyStage> {
    const { generation, phase } = await this.#readStage();
    return { generation, phase };
  }

  async saveStage({ generation, phase }: KeyStage): Promise<void> {
    const { floors } = await this.#readStage();
    await this.#writeStage({ generation, phase, floors });
  }

  /** The newest owner documents that this node has accepted. @throws KeyRotationError `keyrotation-stage-damaged` */
  async loadFloors(): Promise<KeyFloors> {
    return (await this.#readStage()).floors ?? {};
  }

  /** Remembers accepted documents. The caller has compared them with the floors before. */
  async saveFloors(floors: KeyFloors): Promise<void> {
    const { generation, phase, floors: before } = await this.#readStage();
    const now = { ...before, ...floors };
    if (JSON.stringify(now) !== JSON.stringify(before))
      await this.#writeStage({ generation, phase, floors: now });
  }

  /**
   * Whether a phase is on disk but not active yet. Until this node gets the membership slots of etcd, its
   * processes are not restarted, not even after a restart of the agent. Keys in phase `distribute` were only
   * distributed and are not to be activated.
   */
  async isActivationPending(): Promise<boolean> {
    const set = await this.loadSet();
    return (
      set !== undefined && isPhaseAtLeast(set.phase, 'trust') && !hasReached(await this.loadStage(), set)
    );
  }

  /** Whether private keys are on this disk. */
  async holdsKeys(): Promise<boolean> {
    const { rotation, lastKey } = this.#paths;
    const found = await Promise.all([rotation, lastKey].map((path) => this.#files.stat(path)));
    return found.some((stat) => stat !== undefined);
  }

  async #readSet(path: string): Promise<KeySet | undefined> {
    const text = await readText(this.#files, path);
    return text === undefined ? undefined : parseKeySet(path, text);
  }

  async #readStage(): Promise<KeyStage & { readonly floors?: KeyFloors | undefined }> {
    const path = this.#paths.stage;
    const text = await readText(this.#files, path);
    if (text === undefined) return INITIAL_STAGE;
    try {
      return stageShape.parse(JSON.parse(text));
    } catch (cause) {
      throw new KeyRotationError('keyrotation-stage-damaged', `reading ${path}`, {
        cause,
        details: { path },
      });
    }
  }

  async #writeStage(stage: KeyStage & { readonly floors: KeyFloors | undefined }): Promise<void> {
    const stored = stageShape.encode({ version: 1, ...stage });
    await this.#write(this.#paths.stage, `${JSON.stringify(stored)}\n`);
  }

  async #write(path: string, text: string): Promise<void> {
    await this.#files.makeDirectory(dirname(path));
    await this.#files.writeAtomic(path, text);
  }
}

/** The refusal of keys that this node has replaced. */
export function oldGeneration(given: number, used: number): KeyRotationError {
  return new KeyRotationError(
    'keyrotation-generation-old',
    `installing shared keys of generation ${given}: older than generation ${used}, which this node has used`,
  );
}
