import { join } from 'node:path';
import process, { argv, stdout } from 'node:process';
import { readFileSync } from 'node:fs';
import { GoVerifiers, type PeerCase } from '../attestation/go-verifiers.ts';
import { logVector, snpVector, tdxVector, tpmVector, type Vector } from '../attestation/vectors.ts';
import { formatResults, isWithin, type BenchResult } from './result.ts';

const ROUNDS = 120;
const CASES_PER_ROUND = 5;

/**
 * Compares our verifiers with the Go verifiers on the same evidence. Our verifier and the Go verifier alternate in
 * short rounds, and the fastest round of each counts, because other work on the machine can only slow a round.
 */
export async function runAttestationBench(): Promise<readonly BenchResult[]> {
  await using peers = await GoVerifiers.build();
  const module = await GoVerifiers.moduleDirectory('github.com/google/go-attestation');
  const log = new Uint8Array(readFileSync(join(module, 'attest/testdata/crypto_agile_eventlog')));
  return [
    await compare(peers, 'TPM quote and event log', [tpmVector(), logVector('public', log)], 1.5),
    await compare(peers, 'SNP report with chain', [snpVector('milan')], 1.3),
    await compare(peers, 'TDX quote with chain', [tdxVector('v4')], 2),
  ];
}

async function compare(
  peers: GoVerifiers,
  name: string,
  vectors: readonly Vector[],
  limit: number,
): Promise<BenchResult> {
  const ours: number[] = [];
  const theirs: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    ours.push(vectors.reduce((sum, vector) => sum + oursMs(vector), 0));
    let peersMs = 0;
    for (const { peer } of vectors) peersMs += await theirsMs(peers, peer);
    theirs.push(peersMs);
  }
  const [oursBest, theirsBest] = [Math.min(...ours), Math.min(...theirs)];
  const detail = `ours ${oursBest.toFixed(3)} ms, Go ${theirsBest.toFixed(3)} ms a case`;
  return { name, value: oursBest / theirsBest, unit: '×', limit, wanted: 'at most', detail };
}

function oursMs({ name, peer, judge }: Vector): number {
  const start = performance.now();
  for (let count = 0; count < CASES_PER_ROUND; count++) {
    const code = judge(peer.parts, peer.pcrs);
    if (code !== undefined) throw new Error(`${name} was refused: ${code}`);
  }
  return (performance.now() - start) / CASES_PER_ROUND;
}

async function theirsMs(peers: GoVerifiers, peer: PeerCase): Promise<number> {
  const { accepted, error, nsPerCase } = await peers.judge({ ...peer, repeat: CASES_PER_ROUND });
  if (!accepted) throw new Error(`the peer refused: ${error}`);
  return nsPerCase / 1e6;
}

if (argv[1] === import.meta.filename) {
  const results = await runAttestationBench();
  stdout.write(`${formatResults(results)}\n`);
  if (!results.every(isWithin)) process.exitCode = 1;
}
