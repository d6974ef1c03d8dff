import { WireReader } from '../../tpm/index.ts';
import { EventlogError } from './errors.ts';

/** Reads the little-endian records of an untrusted log. Checks every size. Throws EventlogError `eventlog-truncated`. */
export class LogReader extends WireReader {
  constructor(bytes: Uint8Array) {
    super(bytes, 'an event log', true);
  }

  override fail(field: string, expected: string, actual: string): Error {
    const doing = `reading ${field} at byte ${this.offset} of an event log`;
    return new EventlogError('eventlog-truncated', doing, { expected, actual });
  }
}
