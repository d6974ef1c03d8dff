import { digestOf } from '../algorithms.ts';
import type { TpmConnection } from '../connection.ts';
import { encodePcrSelection, readPcrSelection, type PcrSelection } from '../structures/pcr-selection.ts';
import { MAX_PUBLIC_BYTES } from '../structures/public.ts';
import type { Template } from '../structures/templates.ts';
import { WireReader, WireWriter } from '../wire.ts';
import { HIERARCHY } from './hierarchies.ts';
import type { LoadedKey, SealedHalves, SealedObject } from './keys.ts';
import type { SaltedSession } from './sessions.ts';

const MAX_CREATION_BYTES = 512;
const ALG_NULL = 0x0010;
const ST_CREATION = 0x8021;
const EMPTY = new Uint8Array();

/** A sealed secret with the proof of the TPM about the state in which it was created. */
export interface ProvedHalves extends SealedHalves {
  /** TPMS_CREATION_DATA (Part 2, 15.1): PCRs, locality, parent, and the caller's `outsideInfo`. */
  readonly creationData: Uint8Array;
  /** Digest of the creation ticket: an HMAC of the TPM over the object's Name and the hash of `creationData`. */
  readonly ticket: Uint8Array;
}

/**
 * TPM2_Create of a sealed object: the TPM records the current values of the PCRs, and `outsideInfo` (at most 64 bytes). The secret
 * crosses the bus encrypted.
 */
export function createSealed(
  tpm: TpmConnection,
  options: {
    readonly parent: Pick<LoadedKey, 'handle' | 'name'>;
    readonly session: SaltedSession;
    readonly template: Template;
    readonly secret: Uint8Array;
    readonly pcrs: readonly number[];
    readonly outsideInfo: Uint8Array;
  },
  signal: AbortSignal,
): Promise<ProvedHalves> {
  const { parent, session, template, secret, pcrs, outsideInfo } = options;
  const parameters = new WireWriter()
    .sized(new WireWriter().sized(EMPTY).sized(secret).finish()) // TPMS_SENSITIVE_CREATE
    .sized(template)
    .sized(outsideInfo)
    .bytes(encodePcrSelection({ hash: 'sha256', pcrs }))
    .finish();
  const command = {
    name: 'create',
    handles: [parent.handle],
    names: [parent.name],
    authorizations: [session.authorize(EMPTY, 'request')],
    parameters,
  } as const;
  return tpm.ask(command, signal, (reader) => {
    const privatePart = reader.sized('private area', MAX_PUBLIC_BYTES);
    const publicPart = reader.sized('public area', MAX_PUBLIC_BYTES);
    const creationData = reader.sized('creationData', MAX_CREATION_BYTES);
    reader.sized('creationHash', 64);
    reader.expect(reader.u16('ticket tag'), ST_CREATION, 'ticket tag');
    reader.expect(reader.u32('ticket hierarchy'), HIERARCHY.owner, 'ticket hierarchy');
    return { publicPart, privatePart, creationData, ticket: reader.sized('ticket digest', 64) };
  });
}

/**
 * TPM2_CertifyCreation without a signature: the TPM checks that it created the loaded object, with exactly this creation data. The
 * session authenticates its answer.
 * @throws TpmError `tpm-refused` (TPM_RC_TICKET) for other creation data, another object or another TPM
 */
export async function verifyCreation(
  tpm: TpmConnection,
  object: Pick<SealedObject, 'handle' | 'name'> & {
    readonly session: SaltedSession;
    readonly creationData: Uint8Array;
    readonly ticket: Uint8Array;
  },
  signal: AbortSignal,
): Promise<void> {
  const parameters = new WireWriter()
    .sized(EMPTY) // qualifyingData
    .sized(digestOf('sha256', object.creationData))
    .u16(ALG_NULL) // inScheme
    .u16(ST_CREATION)
    .u32(HIERARCHY.owner)
    .sized(object.ticket)
    .finish();
  const command = {
    name: 'certifyCreation',
    handles: [HIERARCHY.null, object.handle],
    names: [new WireWriter().u32(HIERARCHY.null).finish(), object.name],
    authorizations: [object.session.authorize()],
    parameters,
  } as const;
  await tpm.ask(command, signal, (reader) => {
    reader.sized('certifyInfo', 1024);
    reader.expect(reader.u16('signature'), ALG_NULL, 'signature');
  });
}

/** Parses TPMS_CREATION_DATA, which comes from a disk and counts only after `verifyCreation()`. @throws TpmError */
export function parseCreationData(bytes: Uint8Array): {
  readonly selection: PcrSelection;
  readonly pcrDigest: Uint8Array;
  /** Name of the storage key below which the object was created. */
  readonly parentName: Uint8Array;
  readonly outsideInfo: Uint8Array;
} {
  const reader = new WireReader(bytes, 'creation data');
  const selection = readPcrSelection(reader);
  const pcrDigest = reader.sized('PCR digest', 64);
  reader.u8('locality');
  reader.u16('nameAlg of the parent');
  const parentName = reader.sized('name of the parent', 66);
  reader.sized('qualified name of the parent', 66);
  const outsideInfo = reader.sized('outsideInfo', 64);
  reader.end();
  return { selection, pcrDigest, parentName, outsideInfo };
}
