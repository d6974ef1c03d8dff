import { checkBinding } from '../appraise.ts';
import { FileError } from '../../file/index.ts';
import { requestTsmReport, type TsmPorts } from '../tsm/index.ts';
import type { Issuer } from '../verdict.ts';
import { encodeTdxEvidence } from './evidence.ts';

/** Path of the event log of a TD (ACPI table CCEL, data area). */
export const CCEL_PATH = '/sys/firmware/acpi/tables/data/CCEL';

const MAX_LOG_BYTES = 256 << 10;
const UNUSED = 0xff;

/** Creates TDX evidence on the machine: the quote of its platform and the event log of its firmware. */
export class TdxIssuer implements Issuer {
  readonly variant = 'tdx';
  readonly #ports: TsmPorts;

  constructor(ports: TsmPorts) {
    this.#ports = ports;
  }

  async issue(binding: Uint8Array, signal: AbortSignal): Promise<Uint8Array> {
    checkBinding(binding);
    const { outblob } = await requestTsmReport(this.#ports, {
      provider: 'tdx_guest',
      inblob: binding,
      signal,
    });
    return encodeTdxEvidence({ quote: outblob, eventLog: await this.#readLog() });
  }

  /** A kernel without this ACPI table has no log; a policy that requires a log then refuses the evidence. */
  async #readLog(): Promise<Uint8Array | undefined> {
    try {
      return withoutPadding(await this.#ports.files.readAttribute(CCEL_PATH, MAX_LOG_BYTES));
    } catch (error) {
      if (error instanceof FileError && error.details['errno'] === 'ENOENT') return undefined;
      throw error;
    }
  }
}

/**
 * The ACPI area is larger than the log and padded with 0xff. The padding is removed because evidence has a size limit.
 */
function withoutPadding(log: Uint8Array): Uint8Array {
  return log.subarray(0, log.findLastIndex((byte) => byte !== UNUSED) + 1);
}
