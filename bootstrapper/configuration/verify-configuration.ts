import { createHash } from 'node:crypto';
import {
  floorOf,
  OwnerDocumentError,
  verifyFromProvisioning,
  verifyNotOlder,
  type Floor,
  type ProvisionedTrust,
} from '../../internal/ownerdocument/index.ts';
import { NodeConfigurationError } from './errors.ts';

const MAX_DOCUMENT_BYTES = 1024 * 1024;

/** The newest documents about the configuration and the owners that this node has accepted. Older ones are refused. */
export interface ConfigurationFloors {
  readonly policy?: Floor | undefined;
  readonly owners?: Floor | undefined;
  /** When this machine found an old copy of its disk (bootstrapper/rollback): documents signed before are refused. */
  readonly signedAfterMs?: number | undefined;
}

/** The configuration as a curator sent it. Everything in it is untrusted. */
interface SentConfiguration {
  readonly document: Uint8Array;
  readonly ownerDocuments: readonly Uint8Array[];
}

/**
 * Verifies that a current owner has signed a configuration. Returns the text of the configuration, and the floors (the
 * oldest documents to accept from now on) to save. An expired signature is accepted, because the node already runs with
 * configurations that were signed before.
 * @throws NodeConfigurationError `nodeconfiguration-unsigned`
 * @throws OwnerDocumentError `owner-document-before-rollback`
 */
export function verifyConfiguration(
  { document, ownerDocuments }: SentConfiguration,
  trust: ProvisionedTrust,
  floors: ConfigurationFloors | undefined,
): { readonly document: string; readonly floors: ConfigurationFloors } {
  const doing = 'verifying the configuration of the cluster';
  try {
    if (document.length > MAX_DOCUMENT_BYTES) throw unsigned(`${doing}: ${document.length} bytes`);
    const proven = verifyFromProvisioning('policy', ownerDocuments, { ...trust, acceptExpired: true });
    const { signedAfterMs } = floors ?? {};
    verifyNotOlder(proven, { owners: floors?.owners, document: floors?.policy, signedAfterMs });
    const { document: policy, owners } = proven;
    if (policy.body.configurationSha256 !== createHash('sha256').update(document).digest('hex'))
      throw unsigned(`${doing}: an owner signed another configuration`);
    return {
      document: Buffer.from(document).toString('utf8'),
      floors: { ...floors, policy: floorOf(policy), owners },
    };
  } catch (cause) {
    if (cause instanceof OwnerDocumentError && cause.code !== 'owner-document-before-rollback')
      throw unsigned(doing, cause);
    throw cause;
  }
}

function unsigned(message: string, cause?: unknown): NodeConfigurationError {
  return new NodeConfigurationError('nodeconfiguration-unsigned', message, { cause });
}
