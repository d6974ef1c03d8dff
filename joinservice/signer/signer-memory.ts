import { dirname } from 'node:path';
import { z } from 'zod';
import type { Floor } from '../../internal/ownerdocument/index.ts';
import { readText, type FilePort } from '../../internal/file/index.ts';
import { SignerError } from './errors.ts';

const MAX_BYTES = 64 * 1024;
/** The newest statements of this many workers, and of this many machines about their disks, are kept in memory. */
const MAX_STATEMENTS = 8_192;
/** Attestation keys of a machine whose statements about its disk are kept: a running agent has one, each start another one. */
const MAX_KEYS = 4;
const NAME = /^[0-9a-z-]{1,64}$/;

const floorShape = z.strictObject({ serial: z.int().min(0), sha256: z.string().optional() });

const controlPlaneShape = z.strictObject({
  version: z.literal(1),
  nodeId: z.string(),
  /** The name that the node had when the signer last signed for it. */
  name: z.string(),
  address: z.string(),
  /** The machine and the attestation key of its evidence. */
  identity: z.string(),
  akName: z.string().optional(),
  /** The newest statement of its agent. */
  statement: z.strictObject({ id: z.string(), timeMs: z.int() }),
  /** The grant of the owner; absent where the inventory lists the machine. */
  grant: floorShape.optional(),
  /** Whether `grant` is the withdrawal of an owner, which frees the address and the name. */
  isWithdrawn: z.literal(true).optional(),
});

/** A control plane to which this signer has given keys or certificates. */
export type KnownControlPlane = Readonly<z.infer<typeof controlPlaneShape>>;

/** The kinds of owner documents that exist only once in a cluster. */
export const FLOOR_KINDS = ['policy', 'operators', 'owners'] as const;
/** One of `FLOOR_KINDS`. */
export type FloorKind = (typeof FLOOR_KINDS)[number];
const floorsShape = z.strictObject({
  version: z.literal(1),
  policy: floorShape.optional(),
  operators: floorShape.optional(),
  owners: floorShape.optional(),
});
type Floors = Readonly<Record<FloorKind, Floor | undefined>>;

/** The newest statement of a machine. */
export interface SeenStatement {
  readonly id: string;
  readonly timeMs: number;
}

/** The newest statement for each of a limited number of IDs, in memory. */
export class NewestStatements {
  readonly #newest = new Map<string, SeenStatement>();
  readonly #max: number;

  constructor(max = MAX_STATEMENTS) {
    this.#max = max;
  }

  get(id: string): SeenStatement | undefined {
    return this.#newest.get(id);
  }

  keep(id: string, statement: SeenStatement): void {
    this.#newest.delete(id);
    this.#newest.set(id, statement);
    const [oldest] = this.#newest.keys();
    if (this.#newest.size > this.#max && oldest !== undefined) this.#newest.delete(oldest);
  }
}

/**
 * The newest statements about state disks, for a few attestation keys of each of a limited number of machines. Anybody can claim the TPM of a
 * member, with any number of attestation keys: that only forgets statements of that member about its disk, whose answers nothing but its TPM opens.
 */
export class DiskStatements {
  readonly #newest = new Map<string, NewestStatements>();

  get(identity: string, akName: string): SeenStatement | undefined {
    return this.#newest.get(identity)?.get(akName);
  }

  keep(identity: string, akName: string, statement: SeenStatement): void {
    const ofMachine = this.#newest.get(identity) ?? new NewestStatements(MAX_KEYS);
    ofMachine.keep(akName, statement);
    this.#newest.delete(identity);
    this.#newest.set(identity, ofMachine);
    const [oldest] = this.#newest.keys();
    if (this.#newest.size > MAX_STATEMENTS && oldest !== undefined) this.#newest.delete(oldest);
  }
}

/**
 * The newest documents and statements that the signer has seen, in its own directory: a file for each control plane,
 * and one for the serials of owner documents. Other programs write to etcd and could replay old documents there. This
 * memory detects such replays. Statements of workers are kept in memory only.
 */
export class SignerMemory {
  readonly #files: FilePort;
  readonly #directory: string;
  readonly #workers = new NewestStatements();
  readonly #disks = new DiskStatements();
  #controlPlanes: Map<string, KnownControlPlane> | undefined;
  #floors: Floors | undefined;

  constructor(options: { readonly files: FilePort; readonly directory: string }) {
    this.#files = options.files;
    this.#directory = options.directory;
  }

  /** The known control planes by node ID. @throws SignerError `signer-memory-damaged` */
  async controlPlanes(): Promise<ReadonlyMap<string, KnownControlPlane>> {
    return (this.#controlPlanes ??= await this.#load());
  }

  /** Stores a control plane; durable when it resolves. */
  async keepControlPlane(known: KnownControlPlane): Promise<void> {
    if (!NAME.test(known.nodeId)) throw new RangeError(`invalid node ID ${known.nodeId.slice(0, 80)}`);
    const all = await this.controlPlanes();
    await this.#write(`control-planes/${known.nodeId}.json`, known);
    (all as Map<string, KnownControlPlane>).set(known.nodeId, known);
  }

  /** The newest statements of workers, by node ID. */
  get workers(): NewestStatements {
    return this.#workers;
  }

  /** The newest statements about state disks. They are apart from those of workers, and forget none of them. */
  get disks(): DiskStatements {
    return this.#disks;
  }

  /** The lowest serial that is still accepted. */
  async floor(kind: FloorKind): Promise<Floor | undefined> {
    return (await this.#allFloors())[kind];
  }

  /**
   * Raises the lowest accepted serial of a kind; never lowers it. The new value is on disk when the promise
   * resolves.
   */
  async raiseFloor(kind: FloorKind, floor: Floor): Promise<void> {
    const all = await this.#allFloors();
    const before = all[kind];
    if (before !== undefined && before.serial > floor.serial) return;
    if (before?.serial === floor.serial && (before.sha256 ?? floor.sha256) === before.sha256) return;
    const now = { ...all, [kind]: floor };
    await this.#write('floors.json', { version: 1, ...now });
    this.#floors = now;
  }

  async #allFloors(): Promise<Floors> {
    if (this.#floors !== undefined) return this.#floors;
    const { policy, operators, owners } = (await this.#read('floors.json', floorsShape)) ?? {};
    return (this.#floors = { policy, operators, owners });
  }

  async #load(): Promise<Map<string, KnownControlPlane>> {
    const all = new Map<string, KnownControlPlane>();
    for (const name of await this.#files.list(`${this.#directory}/control-planes`)) {
      if (!name.endsWith('.json')) continue; // Other files are temporary files that an interrupted write has left.
      const known = await this.#read(`control-planes/${name}`, controlPlaneShape);
      if (known !== undefined) all.set(known.nodeId, known);
    }
    return all;
  }

  async #read<T>(name: string, shape: z.ZodType<T>): Promise<T | undefined> {
    const path = `${this.#directory}/${name}`;
    const text = await readText(this.#files, path, MAX_BYTES);
    if (text === undefined) return undefined;
    try {
      return shape.parse(JSON.parse(text));
    } catch (cause) {
      throw new SignerError('signer-memory-damaged', `reading ${path}`, { cause });
    }
  }

  async #write(name: string, content: object): Promise<void> {
    const path = `${this.#directory}/${name}`;
    await this.#files.makeDirectory(dirname(path));
    await this.#files.writeAtomic(path, `${JSON.stringify(content)}\n`);
  }
}
