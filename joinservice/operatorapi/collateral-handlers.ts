import { toBinary } from '@bufbuild/protobuf';
import {
  checkCollateral,
  MAX_UPLOAD_BYTES,
  parseBundle,
  type CollateralItem,
  type ManufacturerTrust,
} from '../../internal/attestation/collateral/index.ts';
import { AttestationError } from '../../internal/attestation/index.ts';
import type { Clock } from '../../internal/clock/index.ts';
import { CodedError } from '../../internal/errors/index.ts';
import { absent, put, unchanged, type KeySpace } from '../../internal/etcd/index.ts';
import { COLLATERAL_KEY, records, type CollateralRecord } from '../../internal/records/index.ts';
import type { Handlers } from '../../internal/rpc/index.ts';
import { nameOfCaller, refuseField, type Caller, type Mutations } from '../curator/index.ts';
import { PutCollateralRequestSchema, type Admission } from '../curatorproto/gen/operatorapi_pb.js';
import { OperatorApiError } from './errors.ts';

export interface CollateralHandlerParts {
  readonly etcd: KeySpace;
  readonly mutations: Mutations;
  readonly clock: Clock;
  /** Whose documents count. */
  readonly manufacturers: ManufacturerTrust;
}

type CollateralMethods = 'getCollateral' | 'putCollateral';

/** Documents of AMD and Intel that an operator fetched: verified as a whole before they take the place of older ones. */
export function collateralHandlers(
  parts: CollateralHandlerParts,
): Pick<Handlers<typeof Admission, Caller>, CollateralMethods> {
  const { etcd, mutations, clock, manufacturers } = parts;
  return {
    getCollateral: async (_request, { signal }) => {
      const record = await read(etcd, signal);
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
      const mutation = {
        caller: peer,
        method: 'PutCollateral',
        subject: 'collateral',
        idempotencyKey: request.mutation?.idempotencyKey ?? '',
        request: toBinary(PutCollateralRequestSchema, request),
        signal,
      };
      await mutations.run(mutation, async () => {
        const entry = await etcd.get(COLLATERAL_KEY, { signal });
        const before = entry && records.collateral.decode(entry.key, entry.value);
        const judged = judge(bundle, { manufacturers, nowMs: clock.nowMs(), before });
        const record: CollateralRecord = {
          version: 1,
          bundle: Buffer.from(bundle).toString('base64'),
          evaluationNumber: judged.evaluationNumber,
          updatedMs: clock.nowMs(),
          updatedBy: nameOfCaller(peer),
        };
        return {
          when: [entry === undefined ? absent(COLLATERAL_KEY) : unchanged(entry)],
          then: [put(COLLATERAL_KEY, records.collateral.encode(record))],
          detail: judged,
        };
      });
      return { evaluationNumber: (await read(etcd, signal))?.evaluationNumber ?? 0 };
    },
  };
}

async function read(etcd: KeySpace, signal: AbortSignal): Promise<CollateralRecord | undefined> {
  const entry = await etcd.get(COLLATERAL_KEY, { signal });
  return entry && records.collateral.decode(entry.key, entry.value);
}

/** Every document is verified again where it is used; this keeps a bad bundle from replacing a good one. */
function judge(
  bundle: Uint8Array,
  at: {
    readonly manufacturers: ManufacturerTrust;
    readonly nowMs: number;
    readonly before: CollateralRecord | undefined;
  },
): { readonly evaluationNumber: number; readonly documents: number } {
  const seen = at.before?.evaluationNumber ?? 0;
  const before = at.before === undefined ? [] : itemsOf(Buffer.from(at.before.bundle, 'base64'));
  try {
    const items = itemsOf(bundle);
    const options = {
      trust: at.manufacturers,
      nowMs: at.nowMs,
      seenEvaluationNumber: seen,
      previous: before,
    };
    const evaluationNumber = Math.max(seen, checkCollateral(items, options));
    return { evaluationNumber, documents: items.length };
  } catch (cause) {
    if (!(cause instanceof AttestationError) && !(cause instanceof CodedError)) throw cause;
    throw new OperatorApiError('operatorapi-collateral-refused', 'verifying collateral that was handed on', {
      cause,
    });
  }
}

function itemsOf(bundle: Uint8Array): readonly CollateralItem[] {
  return parseBundle(Buffer.from(bundle).toString('utf8')).items;
}
