/** Builds all programs and packages into `dist/`: see `npm run build -- --help`. */
import { existsSync, mkdirSync, readFileSync, statSync } from 'node:fs';
import { relative, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { buildDebianPackage } from './build/debian.ts';
import { buildExecutable } from './build/executable.ts';
import { bundledPackages, readPackages } from './build/licenses.ts';
import { collectManPages } from './build/man.ts';
import { ARCHITECTURES, nodePackage, type Architecture } from './build/node-binary.ts';
import { agentPackage, cliPackage, type Formats } from './build/packages.ts';
import { bundleProgram, programFile, PROGRAMS } from './build/programs.ts';
import { buildRpmPackage } from './build/rpm.ts';
import { buildTarball } from './build/tarball.ts';

const HELP = `Builds all programs and packages into dist/:

  cluster/main.mjs                                         the operator's program, with chunks that it loads when needed
  bootstrapper.mjs joinservice.mjs signer.mjs apilb.mjs exporter.mjs    one file each; all programs need only Node 24
  cluster-agent_VERSION_ARCH.deb                           agent, its Node and bootstrapper.service
  cluster_VERSION_ARCH.deb                                 the operator's program, its manual pages and its Node
  cluster-linux-ARCH bootstrapper-linux-ARCH               single executables, with --sea

Usage: npm run build -- [--arch ARCH] [--formats deb,rpm,tar] [--only-programs] [--sea]

  --arch ARCH       ${Object.keys(ARCHITECTURES).join(' or ')}; default: that of this machine
  --formats LIST    package formats, separated by commas: deb, rpm, tar; default: deb
  --only-programs   do not build packages
  --sea             build single executables too (architecture of this machine only)

The same sources give the same bytes. SOURCE_DATE_EPOCH sets the time of all files in the packages.
`;

/** 2026-01-01: any constant gives reproducible packages. */
const EPOCH_SECONDS = 1_767_225_600;

const BUILDERS = {
  deb: (epochSeconds: number, { deb }: Formats) => buildDebianPackage(DIST, epochSeconds, deb),
  rpm: (epochSeconds: number, { rpm }: Formats) => buildRpmPackage(DIST, epochSeconds, rpm),
  tar: (epochSeconds: number, { tar }: Formats) => buildTarball(DIST, epochSeconds, tar),
} as const;
type Format = keyof typeof BUILDERS;

const ROOT = resolve(import.meta.dirname, '..');
const DIST = resolve(ROOT, 'dist');

interface Options {
  readonly architecture: Architecture;
  readonly formats: readonly Format[];
  readonly onlyPrograms: boolean;
  readonly sea: boolean;
}

function parseOptions(args: readonly string[]): Options | 'help' {
  const { values } = parseArgs({
    args: [...args],
    options: {
      arch: { type: 'string', default: nativeArchitecture() },
      formats: { type: 'string', default: 'deb' },
      'only-programs': { type: 'boolean', default: false },
      sea: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) return 'help';
  const architecture = values.arch;
  if (!isArchitecture(architecture)) throw new Error(`--arch ${architecture}: must be amd64 or arm64`);
  if (values.sea && architecture !== nativeArchitecture()) {
    throw new Error(`--sea --arch ${architecture}: the code cache can only be built on ${architecture}`);
  }
  const formats = values.formats.split(',');
  if (!formats.every(isFormat))
    throw new Error(`--formats ${values.formats}: must be a list of deb, rpm and tar`);
  return { architecture, formats, onlyPrograms: values['only-programs'], sea: values.sea };
}

function nativeArchitecture(): string {
  return process.arch === 'x64' ? 'amd64' : process.arch;
}

function isArchitecture(name: string): name is Architecture {
  return Object.hasOwn(ARCHITECTURES, name);
}

function isFormat(name: string): name is Format {
  return Object.hasOwn(BUILDERS, name);
}

async function main({ architecture, formats, onlyPrograms, sea }: Options): Promise<void> {
  mkdirSync(DIST, { recursive: true });
  const packages = new Set<string>();
  for (const program of PROGRAMS) {
    const metafile = await step(
      () => bundleProgram(ROOT, DIST, program),
      () => resolve(DIST, programFile(program)),
    );
    bundledPackages(metafile).forEach((each) => packages.add(each));
  }
  if (onlyPrograms) return;

  const { version } = JSON.parse(readFileSync(resolve(ROOT, 'package.json'), 'utf8')) as { version: string };
  const epochSeconds = Number(process.env['SOURCE_DATE_EPOCH'] ?? EPOCH_SECONDS);
  const npmPackages = readPackages(ROOT, [...packages, nodePackage(architecture)].sort());
  const manPages = await collectManPages(version, epochSeconds);
  for (const contents of [agentPackage, cliPackage]) {
    const content = contents({ root: ROOT, dist: DIST, version, architecture, npmPackages, manPages });
    for (const format of formats) {
      await step(
        () => BUILDERS[format](epochSeconds, content),
        (target) => target,
      );
    }
  }
  if (!sea) return;
  for (const program of PROGRAMS.filter(({ name }) => name === 'cluster' || name === 'bootstrapper')) {
    await step(
      () => buildExecutable(ROOT, DIST, architecture, program),
      () => resolve(DIST, `${program.name}-linux-${architecture}`),
    );
  }
}

/** Runs `work`, and prints its result with size and duration. */
async function step<T>(work: () => T | Promise<T>, targetOf: (result: T) => string): Promise<T> {
  const startedMs = performance.now();
  const result = await work();
  const target = targetOf(result);
  const size = existsSync(target) ? `${(statSync(target).size / 1e6).toFixed(2)} MB` : 'missing';
  const seconds = ((performance.now() - startedMs) / 1000).toFixed(1);
  say(`${relative(ROOT, target).padEnd(44)} ${size.padStart(9)} ${seconds.padStart(5)} s`);
  return result;
}

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}

const options = parseOptions(process.argv.slice(2));
if (options === 'help') process.stdout.write(HELP);
else await main(options);
