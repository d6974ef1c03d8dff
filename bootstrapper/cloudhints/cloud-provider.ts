import type { FilePort } from '../../internal/file/index.ts';
import type { CloudHints } from './parse-hints.ts';
import type { AskMetadata } from './ask-metadata.ts';

/** One cloud: how a machine on it is recognized, and where its metadata is. */
export interface CloudProvider {
  /** Whether the firmware identifies the machine as one of this cloud. */
  isHere(firmware: Firmware): boolean;
  /**
   * Reads the hints. `ask` sends a request to the metadata service.
   * @throws CloudHintsError
   */
  read(ports: { readonly ask: AskMetadata; readonly files: Pick<FilePort, 'read'> }): Promise<CloudHints>;
}

/** Facts about a machine in its firmware (SMBIOS tables 0, 1 and 3); '' for a missing value. */
export interface Firmware {
  readonly biosVersion: string;
  readonly vendor: string;
  readonly product: string;
  readonly chassisAssetTag: string;
}
