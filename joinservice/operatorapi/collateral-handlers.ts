import {
  MAX_UPLOAD_BYTES,
  parseBundle,
  verifyBundle,
  type ManufacturerTrust,
  type VerifiedBundle,
} from '../../internal/attestation/collateral/index.ts';
import type { Clock } from '../../internal/clock/index.ts';
import { CodedError } from '../../internal/errors/index.ts';
import { absent, put, unchanged, type KeySpace } from '../../internal/etcd/index.ts';
import { COLLATERAL_KEY, records, type CollateralRecord } from '../../internal/records/index.ts';
import type { Handlers } from '../../internal/rpc/index.ts';
import { mutationFrom, nameOfCaller, refuseField, type Caller, type Mutations } from '../curator/index.ts';
import { PutCollateralRequestSchema, type OperatorApi } from '../curatorproto/gen/operatorapi_pb.js';
import { OperatorApiError } from './errors.ts';

/** What the handlers of collateral work with. */
export interface CollateralHandlerParts {
  readonly etcd: KeySpace;
  readonly mutations: Mutations;
  readonly clock: Clock;
  /** Roots of the manufacturers whose documents are accepted. */
  readonly manufacturers: ManufacturerTrust;
}

/** Stores the collateral that operators upload. A bundle is verified as a whole before it replaces the previous one. */
export function collateralHandlers(
  parts: CollateralHandlerParts,
): Pick<Handlers<typeof OperatorApi, Caller>, 'getCollateral' | 'putCollateral'> {
  const { etcd, mutations, clock } = parts;
  return {
    getCollateral: async (_request, { signal }) => {
      const { record } = await read(etcd, signal);
      if (record === undefined) return {};
      const { bundle, evaluationNumber, updatedMs, updatedBy } = record;
      return {
        bundle: Buffer.from(bundle, 'base64'),
        evaluationNumber,
        updatedMs: BigInt(updatedMs),
        updatedBy,
      };
    },
    putCollateral: async (request, { peer, signal }) => {
      const { bundle } = request;
      if (bundle.length > MAX_UPLOAD_BYTES) refuseField('bundle', `at most ${MAX_UPLOAD_BYTES} bytes`);
      const mutation = mutationFrom(PutCollateralRequestSchema, request, {
        peer,
        signal,
        subject: 'collateral',
      });
      await mutations.run(mutation, async () => {
        const { entry, record: previous } = await read(etcd, signal);
        const nowMs = clock.nowMs();
        const { evaluationNumber, bundle: verified } = verify(bundle, { parts, nowMs, previous });
        const record: CollateralRecord = {
          version: 1,
          bundle: Buffer.from(bundle).toString('base64'),
          evaluationNumber,
          updatedMs: nowMs,
          updatedBy: nameOfCaller(peer),
        };
        return {
          when: [entry === undefined ? absent(COLLATERAL_KEY) : unchanged(entry)],
          then: [put(COLLATERAL_KEY, records.collateral.encode(record))],
          detail: { evaluationNumber, documents: verified.items.length },
        };
      });
      return { evaluationNumber: (await read(etcd, signal)).record?.evaluationNumber ?? 0 };
    },
  };
}

async function read(etcd: KeySpace, signal: AbortSignal) {
  const entry = await etcd.get(COLLATERAL_KEY, { signal });
  return { entry, record: entry && records.collateral.decode(entry.key, entry.value) };
}

/** Validators verify every document again; this check keeps a bad bundle from replacing a good one. */
function verify(
  bundle: Uint8Array,
  {
    parts,
    nowMs,
    previous,
  }: {
    readonly parts: CollateralHandlerParts;
    readonly nowMs: number;
    readonly previous: CollateralRecord | undefined;
  },
): VerifiedBundle {
  const before = {
    bundle:
      previous === undefined
        ? { assembledMs: 0, items: [] }
        : parseBundle(Buffer.from(previous.bundle, 'base64')),
    evaluationNumber: previous?.evaluationNumber ?? 0,
  };
  try {
    return verifyBundle(bundle, { trust: parts.manufacturers, nowMs, previous: before });
  } catch (cause) {
    if (!(cause instanceof CodedError)) throw cause;
    throw new OperatorApiError('operatorapi-collateral-refused', 'verifying uploaded collateral', { cause });
  }
}
