import { createHash } from 'node:crypto';
import {
  OwnerDocumentError,
  verifyFromProvisioning,
  type ProvisionedTrust,
} from '../../internal/ownerdocument/index.ts';
import { JoinClientError } from './errors.ts';

/**
 * Verifies that an owner has signed the settings in a ticket. The settings contain the hashes of the programs that this
 * machine will run as root, so neither a join service nor etcd may choose the settings. `settings` and `documents` are
 * untrusted.
 * @throws JoinClientError `joinclient-settings-unsigned`
 */
export function verifySettings(
  settings: Uint8Array,
  documents: readonly Uint8Array[],
  trust: ProvisionedTrust,
): void {
  try {
    const { settingsSha256 } = verifyFromProvisioning('settings', documents, trust).document.body;
    const found = createHash('sha256').update(settings).digest('hex');
    if (settingsSha256 !== found)
      throw unsigned(`an owner signed other settings (${settingsSha256}, received ${found})`);
  } catch (error) {
    if (error instanceof OwnerDocumentError) throw unsigned('invalid owner document', error);
    throw error;
  }
}

function unsigned(why: string, cause?: unknown): JoinClientError {
  return new JoinClientError('joinclient-settings-unsigned', `verifying the settings of a ticket: ${why}`, {
    cause,
  });
}
