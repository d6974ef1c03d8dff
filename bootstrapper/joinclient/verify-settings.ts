import { createHash } from 'node:crypto';
import {
  OwnerDocumentError,
  parseDocument,
  resolveOwners,
  verifyDocument,
  type DocumentTrust,
} from '../../internal/ownerdocument/index.ts';
import { JoinClientError } from './errors.ts';

const MAX_DOCUMENTS = 64;

/** What this machine knows without the cluster's records. */
export interface SettingsTrust extends Omit<DocumentTrust, 'owners'> {
  /** Raw Ed25519 keys that this machine was provisioned with. */
  readonly ownerKeys: readonly [Uint8Array, ...Uint8Array[]];
}

/**
 * Verifies that an owner has signed the settings in a ticket. They name the programs that this machine will run as root, by the
 * hashes in the manifest, so neither a join service nor etcd may choose them. `settings` and `documents` are untrusted.
 * @throws JoinClientError `joinclient-settings-unsigned`
 */
export function verifySettings(
  settings: Uint8Array,
  documents: readonly Uint8Array[],
  { ownerKeys, ...trust }: SettingsTrust,
): void {
  try {
    if (documents.length > MAX_DOCUMENTS) throw unsigned(`${documents.length} owner documents`);
    const kinds = documents.map((bytes) => ({ bytes, ...parseDocument(bytes) }));
    const chain = kinds.filter(({ kind }) => kind === 'owners').sort((a, b) => a.serial - b.serial);
    const start = { keys: ownerKeys, floor: undefined };
    const { keys: owners } = resolveOwners(
      start,
      chain.map(({ bytes }) => bytes),
      trust,
    );
    const [signed, ...others] = kinds.filter(({ kind }) => kind === 'settings');
    if (signed === undefined || others.length > 0)
      throw unsigned(signed === undefined ? 'no owner has signed settings' : 'more than one signature');
    const expected = { ...trust, owners, kind: 'settings', floor: undefined } as const;
    const { settingsSha256 } = verifyDocument(signed.bytes, expected).body;
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
