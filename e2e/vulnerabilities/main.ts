import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { stdout } from 'node:process';
import { parseArgs } from 'node:util';
import { DEFAULT_KUBERNETES_VERSION } from '../../internal/bundle/index.ts';
import { openBundleCache } from '../../internal/bundlebuild/index.ts';
import { createBuildContext } from '../build-context.ts';
import { findInPackages, findInProgram } from './find.ts';
import { parseExceptions, problemsOf, type Finding } from './finding.ts';
import { runGo } from '../run-go.ts';
import { goPrograms } from './programs.ts';

const EXCEPTIONS = resolve(import.meta.dirname, '../../docs/vulnerability-exceptions.json');
const GOVULNCHECK = 'golang.org/x/vuln/cmd/govulncheck';
const FOUND = 10;
const HELP = `Finds known vulnerabilities in npm packages (\`npm audit\`) and in the Go programs of a bundle (\`govulncheck\`).

Usage: npm run vulnerabilities [-- OPTIONS]

  --kubernetes-version V   the bundle (${DEFAULT_KUBERNETES_VERSION}), which \`cluster bundle build\` has built
  --exceptions FILE        accepted vulnerabilities, each with a reason and a last day (docs/vulnerability-exceptions.json)

npm asks its registry, and govulncheck the database of GOVULNDB (https://vuln.go.dev). The exit code is ${FOUND} if there is a
vulnerability without an exception, or an exception that is not needed any more, and 1 if a database does not answer.
`;

const { values: options } = parseArgs({
  options: {
    'kubernetes-version': { type: 'string', default: DEFAULT_KUBERNETES_VERSION },
    exceptions: { type: 'string', default: EXCEPTIONS },
    help: { type: 'boolean', default: false },
  },
});
if (options.help) stdout.write(HELP);
else {
  const problems = await findProblems();
  for (const problem of problems) stdout.write(`✖ ${problem}\n`);
  if (problems.length > 0) process.exitCode = FOUND;
  else stdout.write('no known vulnerability without an exception\n');
}

async function findProblems(): Promise<readonly string[]> {
  const exceptions = parseExceptions(await readFile(options.exceptions, 'utf8'));
  const stopping = new AbortController();
  for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, () => stopping.abort());
  const { signal } = stopping;
  const say = (text: string): void => void stdout.write(`${text}\n`);
  const context = createBuildContext({ signal, say });
  const directory = await mkdtemp(join(tmpdir(), 'cluster-vulnerabilities-'));
  try {
    say('npm packages');
    const findings: Finding[] = [...(await findInPackages(context))];
    const govulncheck = join(directory, 'govulncheck');
    await runGo(['build', '-o', govulncheck, GOVULNCHECK], { cwd: import.meta.dirname, signal });
    const cache = openBundleCache(context);
    const manifest = await cache.read(options['kubernetes-version'], context.machine.architecture);
    for await (const program of goPrograms(manifest, cache, { directory, signal })) {
      say(program.name);
      findings.push(...(await findInProgram(context, program, govulncheck)));
    }
    return problemsOf(findings, exceptions, Date.now());
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}
