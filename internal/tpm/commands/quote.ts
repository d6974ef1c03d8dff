import { ALG } from '../algorithms.ts';
import type { Authorization } from '../command.ts';
import type { TpmConnection } from '../connection.ts';
import { nvNameOf, type NvPublic } from '../structures/nv-public.ts';
import { encodePcrSelection, type PcrSelection } from '../structures/pcr-selection.ts';
import { WireWriter, type WireReader } from '../wire.ts';
import type { LoadedKey } from './keys.ts';

/** A signed TPMS_ATTEST: the bytes that were signed, and the TPMT_SIGNATURE of the TPM. */
export interface SignedAttest {
  readonly attest: Uint8Array;
  readonly signature: Uint8Array;
}

/** The key that signs a statement, and the extra data that the signature covers. */
interface SigningOptions {
  readonly key: Pick<LoadedKey, 'handle' | 'name' | 'auth'>;
  /** At most 64 bytes: a hash over everything that the statement is bound to. */
  readonly extraData: Uint8Array;
}

/** TPM2_Quote with the scheme of the key. */
export function quote(
  tpm: TpmConnection,
  options: SigningOptions & { readonly selection: PcrSelection },
  signal: AbortSignal,
): Promise<SignedAttest> {
  const parameters = new WireWriter()
    .sized(options.extraData)
    .u16(ALG.null)
    .bytes(encodePcrSelection(options.selection))
    .finish();
  const { handle, name, auth } = options.key;
  const command = { name: 'quote', handles: [handle], names: [name], authorizations: [auth] } as const;
  return tpm.ask({ ...command, parameters }, signal, readSignedAttest);
}

/** TPM2_NV_Certify: a signed statement of the whole content of an NV index, e.g. a counter. */
export function certifyNv(
  tpm: TpmConnection,
  options: SigningOptions & {
    /** The definition of the index as it is now. */
    readonly nv: NvPublic;
    readonly indexAuth: Authorization;
  },
  signal: AbortSignal,
): Promise<SignedAttest> {
  const { key, nv, indexAuth } = options;
  const parameters = new WireWriter()
    .sized(options.extraData)
    .u16(ALG.null)
    .u16(nv.sizeBytes)
    .u16(0) // offset
    .finish();
  // The index authorizes its own reading, so it is both the authorizing and the certified handle.
  const handles = [key.handle, nv.index, nv.index];
  const names = [key.name, nvNameOf(nv), nvNameOf(nv)];
  const authorizations = [key.auth, indexAuth];
  return tpm.ask({ name: 'nvCertify', handles, names, authorizations, parameters }, signal, readSignedAttest);
}

function readSignedAttest(reader: WireReader): SignedAttest {
  const attest = reader.sized('statement', 2048);
  const signature = reader.bytes(reader.remaining, 'signature');
  return { attest, signature };
}
