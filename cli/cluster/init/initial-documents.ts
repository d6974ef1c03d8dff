import { createHash } from 'node:crypto';
import { endorsementKeyIdIn } from '../../../internal/attestation/index.ts';
import {
  DOCUMENT_LIFETIMES_MS,
  firstSerial,
  signDocument,
  type DocumentBodies,
  type DocumentKind,
} from '../../../internal/ownerdocument/index.ts';
import type { SignedKeys } from '../../../internal/keyset/index.ts';
import { fingerprintOfKey, pubKeyDerOf } from '../../../internal/pki/index.ts';
import { firstNodeRoles } from '../../../internal/role/index.ts';
import type { OwnerKey } from '../../workspace/index.ts';
import type { VerifiedMachine } from '../machine/verify-machine.ts';

/** The name under which the agent records the owner of its provisioning file. */
const OWNER_NAME = 'owner';

/**
 * The documents that an owner signs with an init, for the first records of a new or restored cluster: the owners, the configuration, the
 * settings of joining machines, the operators, and the grant of the first node; for a restored cluster also the shared keys, if they
 * were rotated. All have the first serial of the epoch.
 */
export function signInitialDocuments(options: {
  readonly clusterId: string;
  readonly epoch: number;
  readonly ownerKey: OwnerKey;
  /** The exact bytes that the cluster stores. */
  readonly configuration: Uint8Array;
  /** The canonical JSON of the settings that the first node stores. */
  readonly settings: Uint8Array;
  readonly machine: VerifiedMachine;
  readonly singleNode: boolean;
  /** The shared keys in the backup of a restored cluster; undefined for the keys that a cluster is created with. */
  readonly sharedKeys?: SignedKeys | undefined;
  readonly nowMs: number;
}): Uint8Array[] {
  const {
    clusterId,
    epoch,
    ownerKey,
    configuration,
    settings,
    machine,
    singleNode,
    sharedKeys,
    nowMs: issuedMs,
  } = options;
  const serial = firstSerial(epoch);
  const sign = <K extends DocumentKind>(kind: K, body: DocumentBodies[K]): Uint8Array => {
    const endsMs = issuedMs + DOCUMENT_LIFETIMES_MS[kind];
    const content = { kind, clusterId, epoch, serial, issuedMs, endsMs, body };
    return signDocument(content, ownerKey.keyPem);
  };
  const fingerprint = fingerprintOfKey(pubKeyDerOf(ownerKey.keyPem));
  return [
    sign('owners', { keys: [ownerKey.pubKeyBase64] }),
    sign('policy', { configurationSha256: sha256Of(configuration) }),
    sign('settings', { settingsSha256: sha256Of(settings) }),
    sign('operators', { operators: [{ name: OWNER_NAME, fingerprint, role: 'owner' }] }),
    sign('grant', {
      ...grantSubject(machine),
      roles: [...firstNodeRoles({ singleNode })],
      floors: { owners: serial, policy: serial, operators: serial },
    }),
    ...(sharedKeys === undefined ? [] : [sign('keys', sharedKeys)]),
  ];
}

function sha256Of(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}

/** The first node as its record identifies it: by the endorsement key of its TPM, else by its node key. */
function grantSubject({ fingerprint, record }: VerifiedMachine) {
  const hex = fingerprint.replace('sha256:', '');
  const identity = endorsementKeyIdIn(record.identity) === undefined ? `machine-key:${hex}` : record.identity;
  return { nodeId: `node-${hex.slice(0, 32)}`, fingerprint, identity };
}
