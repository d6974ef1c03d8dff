import { encodeFormatting, PREAMBLE_BYTES, SLOT_BYTES } from '../../internal/statedisk/index.ts';
import { DiskError } from './errors.ts';
import type { DiskPorts, DiskSettings } from './disk-settings.ts';

const COMMAND_MS = 60_000;
const MIN_BYTES = 64 * 2 ** 20;

/** One of the two slots: 0 is at the beginning of the device, 1 directly after it. */
export type Slot = 0 | 1;

/** The two slots for records at the beginning of a block device. Each write is durable when its promise resolves. */
export class RecordSlots {
  /** The device itself, not a link to it. */
  readonly device: string;
  readonly #ports: Pick<DiskPorts, 'files' | 'streams'>;

  private constructor(ports: Pick<DiskPorts, 'files' | 'streams'>, device: string) {
    this.#ports = ports;
    this.device = device;
  }

  /** @throws DiskError `disk-device-missing`, `disk-too-small` */
  static async open(ports: DiskPorts, settings: DiskSettings, signal: AbortSignal): Promise<RecordSlots> {
    const run = async (...argv: [string, ...string[]]): Promise<string> =>
      (await ports.commands.run({ argv, timeoutMs: COMMAND_MS, signal })).stdout.trim();
    const device = await run('realpath', '--canonicalize-missing', '--', settings.device);
    // A write to a path that does not exist would create a file.
    if ((await ports.files.stat(device)) === undefined)
      throw new DiskError('disk-device-missing', `opening the state disk: ${settings.device} not found`);
    const slots = new RecordSlots(ports, device);
    const start = await slots.#read(signal);
    if (start.length < 2 * SLOT_BYTES || (await slots.#isShorterThan(MIN_BYTES, signal)))
      throw new DiskError('disk-too-small', `opening the state disk: ${settings.device}`);
    return slots;
  }

  /** The bytes of both slots, read once. */
  async read(signal: AbortSignal): Promise<Uint8Array> {
    return this.#read(signal);
  }

  /** Marks the disk as one that is being formatted. Records of an earlier formatting are invalid from then on. */
  async writeFormatting(): Promise<void> {
    await this.#write(0, encodeFormatting());
    await this.wipe(1);
  }

  /** Overwrites everything that was in both slots, and leaves a disk that is to be formatted. */
  async destroy(): Promise<void> {
    await this.writeFormatting();
    await this.#write(0, new Uint8Array(SLOT_BYTES - PREAMBLE_BYTES), PREAMBLE_BYTES);
  }

  /** Writes a record. The body comes first and the sector with its checksum last. */
  async write(slot: Slot, record: Uint8Array): Promise<void> {
    await this.#write(slot, record.subarray(PREAMBLE_BYTES), PREAMBLE_BYTES);
    await this.#write(slot, record.subarray(0, PREAMBLE_BYTES));
  }

  /** Overwrites a slot with zeros, its first sector first: sealed shares and key slots are gone from it. */
  async wipe(slot: Slot): Promise<void> {
    await this.#write(slot, new Uint8Array(PREAMBLE_BYTES));
    await this.#write(slot, new Uint8Array(SLOT_BYTES - PREAMBLE_BYTES), PREAMBLE_BYTES);
  }

  async #write(slot: Slot, bytes: Uint8Array, offset = 0): Promise<void> {
    await this.#ports.streams.writeAt(this.device, slot * SLOT_BYTES + offset, bytes);
    await this.#ports.files.sync(this.device);
  }

  async #read(signal: AbortSignal): Promise<Uint8Array> {
    const parts: Uint8Array[] = [];
    let left = 2 * SLOT_BYTES;
    for await (const chunk of this.#ports.streams.readChunks(this.device, { signal })) {
      parts.push(chunk.subarray(0, left));
      left -= Math.min(left, chunk.length);
      if (left === 0) break;
    }
    return Buffer.concat(parts);
  }

  async #isShorterThan(bytes: number, signal: AbortSignal): Promise<boolean> {
    const into = Buffer.alloc(4096);
    const options = { offset: bytes - into.length, into, signal };
    for await (const chunk of this.#ports.streams.readChunks(this.device, options))
      return chunk.length < into.length;
    return true;
  }
}
