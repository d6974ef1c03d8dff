import { join } from 'node:path';
import { z } from 'zod';
import type { Collateral } from '../../internal/attestation/index.ts';
import {
  collateralFrom,
  encodeBundle,
  parseBundle,
  type CollateralBundle,
} from '../../internal/attestation/collateral/index.ts';
import type { FilePort } from '../../internal/file/index.ts';
import { AttestError } from './errors.ts';

const MAX_BUNDLE_BYTES = 16 << 20;
const MAX_SEEN_BYTES = 4096;
const seenSchema = z.strictObject({ version: z.literal(1), evaluationNumber: z.int().min(0) });

/**
 * The manufacturers' documents that this workspace judges with, and the highest evaluation number it has ever used: Intel
 * numbers each recovery of its TCB, and whoever can keep new documents away must not bring old ones back.
 *
 *     <workspace>/collateral/bundle.json     replaced whole, verified before
 *     <workspace>/collateral/seen.json       only grows, written before the bundle that has the new number
 */
export class CollateralStore {
  readonly #files: FilePort;
  readonly #folder: string;

  constructor(files: FilePort, workspace: string) {
    this.#files = files;
    this.#folder = join(workspace, 'collateral');
  }

  /** Undefined before the first refresh. */
  async bundle(): Promise<CollateralBundle | undefined> {
    const raw = await this.#files.read(join(this.#folder, 'bundle.json'), MAX_BUNDLE_BYTES);
    return raw === undefined ? undefined : parseBundle(Buffer.from(raw).toString('utf8'));
  }

  async seenEvaluationNumber(): Promise<number> {
    const path = join(this.#folder, 'seen.json');
    const raw = await this.#files.read(path, MAX_SEEN_BYTES);
    if (raw === undefined) return 0;
    try {
      return seenSchema.parse(JSON.parse(Buffer.from(raw).toString('utf8'))).evaluationNumber;
    } catch (cause) {
      throw new AttestError('attest-collateral-store', `reading ${path}`, { cause });
    }
  }

  /** What validators take. Empty where nothing was ever fetched: evidence that needs it is then refused. */
  async collateral(): Promise<Collateral> {
    const bundle = await this.bundle();
    if (bundle === undefined) return {};
    const { snp, tdx } = collateralFrom(bundle.items);
    const seenEvaluationNumber = await this.seenEvaluationNumber();
    return {
      ...(snp === undefined ? {} : { snp }),
      ...(tdx === undefined ? {} : { tdx: { ...tdx, seenEvaluationNumber } }),
    };
  }

  /** `evaluationNumber`: of documents in the bundle whose signatures have been verified. */
  async replace(bundle: CollateralBundle, evaluationNumber: number): Promise<void> {
    await this.#files.makeDirectory(this.#folder);
    const highest = Math.max(evaluationNumber, await this.seenEvaluationNumber());
    const seen = `${JSON.stringify({ version: 1, evaluationNumber: highest })}\n`;
    await this.#files.writeAtomic(join(this.#folder, 'seen.json'), seen, { mode: 0o644 });
    await this.#files.writeAtomic(join(this.#folder, 'bundle.json'), encodeBundle(bundle), { mode: 0o644 });
  }
}
