import { createHash } from 'node:crypto';
import { z } from 'zod';
import { registriesFrom, type RegistriesConfig } from '../../internal/config/index.ts';
import {
  floorOf,
  OwnerDocumentError,
  verifyFromProvisioning,
  verifySerial,
  type Floor,
  type ProvisionedTrust,
} from '../../internal/ownerdocument/index.ts';
import { NodeRegistriesError } from './errors.ts';

const MAX_DOCUMENT_BYTES = 1024 * 1024;

/** The newest documents about the configuration and the owners that this node has accepted. Older ones are refused. */
export interface ConfigurationFloors {
  readonly policy: Floor;
  readonly owners: Floor | undefined;
}

/** The configuration as a curator sent it. Everything in it is untrusted. */
interface SentConfiguration {
  readonly document: Uint8Array;
  readonly ownerDocuments: readonly Uint8Array[];
}

/**
 * The registries in a configuration that a current owner has signed, and the floors to save. A signature counts after its end
 * too, as for everything that runs already.
 * @throws NodeRegistriesError `noderegistries-unsigned`, `noderegistries-invalid`
 */
export function verifyConfiguration(
  { document, ownerDocuments }: SentConfiguration,
  trust: ProvisionedTrust,
  floors: ConfigurationFloors | undefined,
): { readonly registries: RegistriesConfig; readonly floors: ConfigurationFloors } {
  const doing = 'verifying the configuration of the cluster';
  try {
    if (document.length > MAX_DOCUMENT_BYTES) throw unsigned(`${doing}: ${document.length} bytes`);
    const { document: policy, owners } = verifyFromProvisioning('policy', ownerDocuments, {
      ...trust,
      acceptExpired: true,
    });
    verifySerial(policy, floors?.policy);
    // Without this, an owner who was removed would be one again where nobody shows the newer documents.
    verifySerial(
      { kind: 'owners', serial: owners?.serial ?? 0, sha256: owners?.sha256 ?? '' },
      floors?.owners,
    );
    if (policy.body.configurationSha256 !== createHash('sha256').update(document).digest('hex'))
      throw unsigned(`${doing}: an owner signed another one`);
    const registries = registriesFrom(Buffer.from(document).toString('utf8'));
    return { registries, floors: { policy: floorOf(policy), owners } };
  } catch (cause) {
    if (cause instanceof OwnerDocumentError) throw unsigned(doing, cause);
    if (cause instanceof z.ZodError || cause instanceof SyntaxError)
      throw new NodeRegistriesError('noderegistries-invalid', 'reading the registries of the cluster', {
        cause,
      });
    throw cause;
  }
}

function unsigned(message: string, cause?: unknown): NodeRegistriesError {
  return new NodeRegistriesError('noderegistries-unsigned', message, { cause });
}
