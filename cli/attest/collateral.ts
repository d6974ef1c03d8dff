import { isAbsolute, join } from 'node:path';
import { counted } from '../../internal/printable/index.ts';
import type { ExitName } from '../../internal/errors/index.ts';
import {
  ageOf,
  encodeBundle,
  isBundle,
  withoutDuplicates,
  type CollateralAge,
  type CollateralItem,
} from '../../internal/attestation/collateral/index.ts';
import type { CommandContext } from '../app/command.ts';
import { writeOutput } from '../app/output-file.ts';
import { documentsIn, readFile } from './inputs.ts';

/** Arguments of `cluster attest collateral FILE…`. */
export interface CollateralOptions {
  readonly files: readonly string[];
  /** Path of the bundle to write; undefined writes none. */
  readonly out: string | undefined;
}

/** `cluster attest collateral FILE…`: puts documents of AMD and Intel into one bundle and shows their ages. */
export async function runAttestCollateral(
  context: CommandContext,
  options: CollateralOptions,
): Promise<ExitName> {
  const { ports, paths, host } = context;
  const nowMs = ports.clock.nowMs();
  const reading = { files: ports.files, base: paths.workspace, nowMs };
  const files = await Promise.all(
    options.files.map(async (name) => ({ name, bytes: await readFile(name, reading) })),
  );
  const items = withoutDuplicates(files.flatMap(documentsIn));
  if (options.out !== undefined) {
    const path = isAbsolute(options.out) ? options.out : join(paths.workspace, options.out);
    // Documents expire: the new bundle replaces the earlier one, which may be the one that the workspace uses.
    const file = { path, mode: 0o644, isEarlier: isBundle };
    await writeOutput(ports.files, file, encodeBundle({ assembledMs: nowMs, items }));
    host.say('attest-collateral-written', `Wrote ${counted(items.length, 'document')} to ${options.out}.`, {
      path,
    });
  }
  const { data, text, exit } = collateralTable(items, nowMs);
  host.result(data, () => text);
  return exit;
}

/** Age and state of each document, for `-o json` and as text; `unhealthy` unless all are current. */
export function collateralTable(
  items: readonly CollateralItem[],
  nowMs: number,
): {
  readonly data: { readonly documents: readonly object[] };
  readonly text: string;
  readonly exit: ExitName;
} {
  const ages = items.map((item) => ageOf(item, nowMs));
  return {
    data: { documents: ages.map(forJson) },
    text: `${ages.map(line).join('\n')}\n`,
    exit: ages.every(({ state }) => state === 'current') ? 'ok' : 'unhealthy',
  };
}

function forJson({ issuedMs, expiresMs, ...rest }: CollateralAge): object {
  return { ...rest, issued: new Date(issuedMs).toISOString(), expires: new Date(expiresMs).toISOString() };
}

function line({ what, state, ageDays, expiresMs }: CollateralAge): string {
  return `${state.padEnd(8)} ${String(ageDays).padStart(5)} days old, expires ${new Date(expiresMs).toISOString().slice(0, 10)}  ${what}`;
}
