import type { Clock } from '../clock/index.ts';
import type { CommandRunner } from '../exec/index.ts';
import type { FilePort } from '../file/index.ts';
import type { Logger } from '../logging/index.ts';
import type { UnitPort } from './systemd-units.ts';

/**
 * Interfaces (ports) to the system of one machine, which most parts of the agent use. A function takes only the ports
 * that it needs.
 */
export interface SystemPorts {
  readonly files: FilePort;
  readonly commands: CommandRunner;
  readonly units: UnitPort;
  readonly clock: Clock;
  readonly log: Logger;
}
