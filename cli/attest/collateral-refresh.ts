import {
  verifyBundle,
  withoutDuplicates,
  type ManufacturerTrust,
} from '../../internal/attestation/collateral/index.ts';
import { amdTrust } from '../../internal/attestation/snp/index.ts';
import { intelTrust } from '../../internal/attestation/tdx/index.ts';
import type { CommandContext } from '../app/command.ts';
import { collateralTable } from './collateral.ts';
import { readCollateral, saveCollateral } from './collateral-files.ts';
import { AttestError } from './errors.ts';
import { fetchDocuments, sourcesOf, type RefreshOptions } from './fetch-documents.ts';

const PRODUCTS: readonly string[] = ['Milan', 'Genoa', 'Turin'];

/**
 * `cluster attest collateral refresh`: fetches the documents of AMD and Intel, verifies all of them, and only
 * then replaces those of the workspace.
 */
export async function runCollateralRefresh(
  context: CommandContext,
  options: RefreshOptions,
  trust: ManufacturerTrust = { amd: amdTrust(), intel: intelTrust() },
): Promise<void> {
  const { host, ports, paths, signal } = context;
  const { clock, files } = ports;
  const wanted = { ...options, fmspc: options.fmspc.map((text) => text.toLowerCase()) };
  checkWanted(wanted);
  const sources = sourcesOf(wanted);
  const items = await host.step('attest-collateral-fetch', 'Fetching collateral', async (progress) => {
    const fetched = [];
    for (const [index, source] of sources.entries()) {
      progress.update(source.url, { of: sources.length, value: index, unit: 'steps' });
      fetched.push(...(await fetchDocuments(source, { clock, signal })));
    }
    return withoutDuplicates(fetched);
  });
  const nowMs = clock.nowMs();
  const previous = await readCollateral(files, paths.workspace);
  const verified = await host.step('attest-collateral-verify', 'Verifying collateral', () =>
    Promise.try(() => verifyBundle({ assembledMs: nowMs, items }, { trust, nowMs, previous })),
  );
  await saveCollateral(files, paths.workspace, verified);
  const { evaluationNumber } = verified;
  const { data, text } = collateralTable(items, nowMs);
  host.result({ ...data, evaluationNumber }, () => text);
}

function checkWanted({ fmspc, product }: RefreshOptions): void {
  const [unknown] = [
    ...fmspc.filter((text) => !/^[0-9a-f]{12}$/.test(text)),
    ...product.filter((name) => !PRODUCTS.includes(name)),
  ];
  if (unknown !== undefined)
    throw new AttestError('attest-option', `unknown product or FMSPC ${JSON.stringify(unknown)}`);
  if (fmspc.length + product.length === 0)
    throw new AttestError('attest-option', '--fmspc or --product is required');
}
