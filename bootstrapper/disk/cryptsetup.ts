import { DAY_MS } from '../../internal/clock/index.ts';
import { formatArguments, LAYOUT, openArguments, SLOT_ARGUMENTS } from '../../internal/luks/index.ts';
import type { Secret } from '../../internal/secret/index.ts';
import { OPENS, type DiskPorts, type DiskSettings } from './disk-settings.ts';

/** Exit code of cryptsetup(8): no slot opens with this key. */
export const NO_KEY = 2;
/** Time limit of one command, which derives keys and may load kernel modules. */
const COMMAND_MS = 300_000;
/** A slot of the LUKS header that exists only while the first one is replaced, in memory. */
const BESIDE = 2;
/**
 * Time limit for formatting. With integrity tags, formatting writes every sector, because a sector without a valid tag
 * cannot be read, not even by mkfs.
 */
const FORMAT_MS = DAY_MS;

/**
 * Runs cryptsetup(8) with a LUKS header in a file in memory, never with a header on the disk. Keys are passed on
 * standard input. If a command reads two keys, they are passed in a file in memory.
 */
export class Cryptsetup {
  readonly #ports: Pick<DiskPorts, 'commands' | 'files'>;
  readonly #settings: Pick<DiskSettings, 'memory' | 'name' | 'isAuthenticated'>;
  readonly #device: string;
  readonly #signal: AbortSignal;
  readonly #header: string;
  readonly #otherKey: string;

  constructor(
    ports: Pick<DiskPorts, 'commands' | 'files'>,
    settings: Pick<DiskSettings, 'memory' | 'name' | 'isAuthenticated'>,
    device: string,
    signal: AbortSignal,
  ) {
    this.#ports = ports;
    this.#settings = settings;
    this.#device = device;
    this.#signal = signal;
    this.#header = `${settings.memory}/header`;
    this.#otherKey = `${settings.memory}/key`;
  }

  /** Deletes the files in memory that a killed run left, and writes the header that the next operations use. */
  async putHeader(header: Uint8Array = new Uint8Array(LAYOUT.headerBytes)): Promise<void> {
    await this.clear();
    await this.#ports.files.makeDirectory(this.#settings.memory);
    await this.#ports.files.writeAtomic(this.#header, header);
  }

  /** The header after the operations. */
  async readHeader(): Promise<Uint8Array> {
    return (await this.#ports.files.read(this.#header, LAYOUT.headerBytes)) ?? new Uint8Array();
  }

  async clear(): Promise<void> {
    await this.#ports.files.remove(this.#settings.memory);
  }

  /** Creates a header with one slot. */
  async format(uuid: string, key: Secret<Uint8Array>): Promise<void> {
    const { isAuthenticated } = this.#settings;
    const args = formatArguments({ uuid, isAuthenticated, header: this.#header, device: this.#device });
    await this.#run(key, FORMAT_MS, ...args);
  }

  /** Adds a slot with a key of its own. */
  async addSlot(
    slot: number,
    options: { readonly key: Secret<Uint8Array>; readonly opensWith: Secret<Uint8Array> },
  ): Promise<void> {
    await this.#ports.files.writeAtomic(this.#otherKey, options.key.reveal());
    try {
      const at = ['--new-key-slot', String(slot), '--key-file', '-'];
      await this.#run(
        options.opensWith,
        COMMAND_MS,
        'luksAddKey',
        ...SLOT_ARGUMENTS,
        ...at,
        this.#header,
        this.#otherKey,
      );
    } finally {
      await this.#ports.files.remove(this.#otherKey);
    }
  }

  /** Overwrites a slot. */
  async removeSlot(slot: number, opensWith: Secret<Uint8Array>): Promise<void> {
    await this.#run(opensWith, COMMAND_MS, 'luksKillSlot', '--key-file', '-', this.#header, String(slot));
  }

  /** Maps the disk with the key of one slot. */
  async open(slot: number, key: Secret<Uint8Array>): Promise<void> {
    const at = { header: this.#header, slot, device: this.#device, name: this.#settings.name };
    await this.#run(key, COMMAND_MS, ...openArguments(at));
  }

  /** Whether the key opens the slot: resolves without mapping anything, or rejects with an ExecError. */
  async check(slot: number, key: Secret<Uint8Array>): Promise<void> {
    const at = ['--header', this.#header, '--key-file', '-', '--key-slot', String(slot)];
    await this.#run(key, COMMAND_MS, 'open', '--type', 'luks2', '--test-passphrase', ...at, this.#device);
  }

  async close(): Promise<void> {
    await this.#run(undefined, COMMAND_MS, 'close', this.#settings.name);
  }

  async #run(
    key: Secret<Uint8Array> | undefined,
    timeoutMs: number,
    ...args: readonly string[]
  ): Promise<void> {
    await this.#ports.commands.run({
      argv: ['cryptsetup', '--batch-mode', ...args],
      ...(key === undefined ? {} : { input: key.reveal() }),
      timeoutMs,
      signal: this.#signal,
    });
  }
}

/** Keys of the slots of a LUKS header. */
interface SlotKeys {
  /** The key that opens the first slot now. */
  readonly from: Secret<Uint8Array>;
  /** The key that is to open it. */
  readonly to: Secret<Uint8Array>;
  /** The key that is to open the slot of the owners; undefined: it stays. */
  readonly recoveryKey?: Secret<Uint8Array> | undefined;
}

/**
 * Replaces the first slot, or both, in a copy of the header in memory. `from` must open it, so that a wrong answer of a signer changes nothing. The keys before
 * open nothing in the new header.
 * @returns the new header, which opens with the new keys
 */
export async function replaceSlots(
  cryptsetup: Cryptsetup,
  header: Uint8Array,
  { from, to, recoveryKey }: SlotKeys,
): Promise<Uint8Array> {
  await cryptsetup.putHeader(header);
  try {
    await cryptsetup.addSlot(BESIDE, { key: to, opensWith: from });
    await cryptsetup.removeSlot(OPENS.shares, to);
    await cryptsetup.addSlot(OPENS.shares, { key: to, opensWith: to });
    await cryptsetup.removeSlot(BESIDE, to);
    await cryptsetup.check(OPENS.shares, to);
    if (recoveryKey !== undefined) {
      await cryptsetup.removeSlot(OPENS.recovery, to);
      await cryptsetup.addSlot(OPENS.recovery, { key: recoveryKey, opensWith: to });
      await cryptsetup.check(OPENS.recovery, recoveryKey);
    }
    return await cryptsetup.readHeader();
  } finally {
    await cryptsetup.clear();
  }
}
