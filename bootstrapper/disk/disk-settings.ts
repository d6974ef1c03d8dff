import type { CommandRunner } from '../../internal/exec/index.ts';
import type { FilePort, StreamPort } from '../../internal/file/index.ts';
import type { Logger } from '../../internal/logging/index.ts';
import type { Tpm } from '../../internal/tpm/index.ts';

/** The device of a machine's state disk, and how the machine uses it. */
export interface DiskSettings {
  /** Block device; a symbolic link is followed. */
  readonly device: string;
  /** Name of the mapping below /dev/mapper. */
  readonly name: string;
  /** Whether each sector has a tag (dm-integrity): a changed sector is an error instead of noise. */
  readonly isAuthenticated: boolean;
  /** PCRs that the shares are sealed to. */
  readonly pcrs: readonly number[];
  /** The key with which an owner approves other values of these PCRs: x and y on P-256. undefined: nobody may. */
  readonly approvalKey: Uint8Array | undefined;
  /** Recipients ("age1…") of the recovery key: at least one. */
  readonly recipients: readonly [string, ...string[]];
  /** How many of the recipients must act before the disk opens. */
  readonly recoveryThreshold: number;
  /** Where the file system is mounted. */
  readonly mountPoint: string;
  /** Directories of the machine that are on the disk. */
  readonly directories: readonly DiskDirectory[];
  /** A directory in memory for the header and for keys that a program reads from a file. */
  readonly memory: string;
  /** A file with which root allows an empty disk although the TPM remembers another one. */
  readonly permit: string;
}

/** A directory of the machine on the state disk. */
export interface DiskDirectory {
  /** Its name on the disk. */
  readonly name: string;
  /** Its path on the machine. */
  readonly path: string;
  readonly mode: number;
  /** Whether the disk may cover files of the operating system in this directory. Otherwise they are refused, since they stay unencrypted. */
  readonly coversFiles?: boolean;
}

/** Slots of the LUKS header: what opens with the two shares, and what with the recovery key. */
export const OPENS = { shares: 0, recovery: 1 } as const;

/** Ports to the machine. */
export interface DiskPorts {
  readonly commands: CommandRunner;
  readonly files: FilePort;
  readonly streams: StreamPort;
  readonly tpm: Tpm;
  readonly log: Logger;
}
