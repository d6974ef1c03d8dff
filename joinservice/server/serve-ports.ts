import type { Clock } from '../../internal/clock/index.ts';
import type { FilePort, StreamPort } from '../../internal/file/index.ts';
import type { Logger } from '../../internal/logging/index.ts';

/** The ports of this program. */
export interface ServePorts {
  readonly files: FilePort;
  readonly streams: StreamPort;
  readonly clock: Clock;
  readonly log: Logger;
}
