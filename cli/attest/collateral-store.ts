import { join } from 'node:path';
import { z } from 'zod';
import type { Collateral } from '../../internal/attestation/index.ts';
import {
  collateralFrom,
  encodeBundle,
  NO_COLLATERAL,
  parseBundle,
  type CollateralBundle,
  type VerifiedBundle,
} from '../../internal/attestation/collateral/index.ts';
import type { FilePort } from '../../internal/file/index.ts';
import { AttestError } from './errors.ts';

const MAX_BUNDLE_BYTES = 16 << 20;
const MAX_SEEN_BYTES = 4096;
const seenSchema = z.strictObject({ version: z.literal(1), evaluationNumber: z.int().min(0) });

/**
 * The manufacturers' documents that this workspace verifies evidence with, and the highest evaluation number that they ever had.
 * Intel increases this number with each TCB recovery, so a bundle with a lower number is refused: an attacker replays old documents.
 *
 *     WORKSPACE/collateral/bundle.json     replaced as a whole, after it was verified
 *     WORKSPACE/collateral/seen.json       only grows, written before the bundle with the new number
 */
export class CollateralStore {
  readonly #files: FilePort;
  readonly #directory: string;

  constructor(files: FilePort, workspace: string) {
    this.#files = files;
    this.#directory = join(workspace, 'collateral');
  }

  /** Undefined before the first refresh. */
  async bundle(): Promise<CollateralBundle | undefined> {
    const raw = await this.#files.read(join(this.#directory, 'bundle.json'), MAX_BUNDLE_BYTES);
    return raw && parseBundle(raw);
  }

  /** 0 before the first refresh. @throws AttestError `attest-collateral-store` */
  async seenEvaluationNumber(): Promise<number> {
    const path = join(this.#directory, 'seen.json');
    const raw = await this.#files.read(path, MAX_SEEN_BYTES);
    if (raw === undefined) return 0;
    try {
      return seenSchema.parse(JSON.parse(Buffer.from(raw).toString('utf8'))).evaluationNumber;
    } catch (cause) {
      throw new AttestError('attest-collateral-store', `reading ${path}`, { cause });
    }
  }

  /**
   * The stored documents in the form that validators take. Before the first refresh there are none, so
   * evidence that needs them is refused.
   */
  async collateral(): Promise<Collateral> {
    const bundle = await this.bundle();
    return bundle === undefined ? {} : collateralFrom(bundle.items, await this.seenEvaluationNumber());
  }

  /** What the next bundle is compared with, so that documents older than the stored ones are refused. */
  async verified(): Promise<VerifiedBundle> {
    const evaluationNumber = await this.seenEvaluationNumber();
    return { ...((await this.bundle()) ?? NO_COLLATERAL), evaluationNumber };
  }

  /** Saves the highest evaluation number, then the verified bundle. */
  async replace(verified: VerifiedBundle): Promise<void> {
    await this.#files.makeDirectory(this.#directory);
    const evaluationNumber = Math.max(verified.evaluationNumber, await this.seenEvaluationNumber());
    await this.#write('seen.json', `${JSON.stringify({ version: 1, evaluationNumber })}\n`);
    await this.#write('bundle.json', encodeBundle(verified));
  }

  #write(name: string, text: string): Promise<void> {
    return this.#files.writeAtomic(join(this.#directory, name), text, { mode: 0o644 });
  }
}
