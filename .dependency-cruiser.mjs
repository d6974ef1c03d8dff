/**
 * Which way imports may point (rules R1–R7; R8 is in eslint.config.mjs). A rule's name says what
 * is wrong, its comment what to do.
 */
const GROUND = 'errors|secret|clock|cleanup|logging|event|supervisor|printable|endpoint';
const PORTS = 'file|exec|rpc|kube|platform|tpm|etcd|localmachines|metrics|objectstore';
const PROGRAMS = 'cli|bootstrapper|joinservice';
/** The contracts: the only directories of another program that may be imported. */
const CONTRACTS = '(initproto|joinservice/(joinproto|curatorproto))/';

/** Code that is never shipped, beside the code it tests. Shared doubles are in internal/testing. */
const TEST = '\\.(i?test|fuzz)\\.ts$|/(fake|stub)-[^/]+\\.(ts|mjs)$';

const rule = (name, comment, from, to) => ({ name, comment, severity: 'error', from, to });

/** R1 for each program: a contract inside a program is not part of that island. */
const islands = PROGRAMS.split('|').map((program) =>
  rule(
    `R1-${program}-is-an-island`,
    'Programs meet over contracts only: move what both need to internal/, or speak the contract.',
    { path: `^${program}/`, pathNot: `^${CONTRACTS}` },
    { path: `^(${PROGRAMS})/`, pathNot: [`^${program}/`, `^${CONTRACTS}`] },
  ),
);

export default {
  forbidden: [
    ...islands,
    rule(
      'R2-internal-never-looks-up',
      'internal/ knows no program and no contract: take what you need as a parameter of your own type.',
      { path: '^internal/', pathNot: TEST },
      { path: `^(${PROGRAMS}|initproto|e2e)/` },
    ),
    rule(
      'R2-tests-of-internal-see-contracts-only',
      'A test of internal/ may use a contract as its sample, and nothing else from above.',
      { path: `^internal/.*(${TEST})` },
      { path: `^(${PROGRAMS}|initproto|e2e)/`, pathNot: `^${CONTRACTS}` },
    ),
    rule(
      'R2-ground-stands-on-ground',
      'errors, secret, clock, cleanup, logging, event, supervisor, printable and endpoint import nothing but one another.',
      { path: `^internal/(${GROUND})/`, pathNot: TEST },
      { path: '^internal/', pathNot: `^internal/(${GROUND})/` },
    ),
    rule(
      'R2-ports-know-no-domain',
      'A port translates one outside thing and imports ground and ports only: the domain calls it, not the reverse.',
      { path: `^internal/(${PORTS})/`, pathNot: TEST },
      { path: '^internal/', pathNot: `^internal/(${GROUND}|${PORTS})/` },
    ),
    rule(
      'R2-local-machines-are-for-mini-and-stories',
      'internal/localmachines makes containers on the machine that runs it: only `cluster mini` and e2e may do that.',
      {
        path: '^(cli|bootstrapper|joinservice|internal)/',
        pathNot: ['^cli/mini/', '^internal/localmachines/', TEST],
      },
      { path: '^internal/localmachines/' },
    ),
    rule(
      'R3-contracts-are-leaves',
      'A contract is generated code and its runtime. Mapping to the domain sits with each user, at its edge.',
      { path: `^${CONTRACTS}` },
      { pathNot: [`^${CONTRACTS}`, 'node_modules/@bufbuild/protobuf/'] },
    ),
    rule(
      'R4-directories-are-entered-by-their-index',
      'Import the index.ts of the directory; what it does not export is private to it.',
      { path: '^((?:internal|cli|bootstrapper|joinservice)/[^/]+)/' },
      {
        path: '^(?:internal|cli|bootstrapper|joinservice)/[^/]+/',
        pathNot: [
          '^$1/',
          '/index\\.ts$',
          '/gen/[^/]+\\.(js|d\\.ts)$',
          // The app loads commands by name, and commands import the app: an index between the two would
          // close a cycle.
          '^cli/app/[^/]+\\.ts$',
          '^cli/commands/.+\\.ts$',
          // A test imports only the double that it needs: the index would load every port.
          '^internal/testing/',
          // A double is beside the code that it replaces; R7 lets only tests import it.
          '/(fake|stub)-[^/]+\\.ts$',
        ],
      },
    ),
    rule(
      'R4-main-imports-indexes-only',
      'A main.ts wires whole directories: import their index.ts.',
      { path: '^(?:cli|bootstrapper|joinservice)/main\\.ts$' },
      { path: '^(?:internal|cli|bootstrapper|joinservice)/[^/]+/', pathNot: ['/index\\.ts$', '/gen/[^/]+$'] },
    ),
    rule(
      'R5-no-import-of-the-own-index',
      'A file imports its neighbors by name: an import of the own index would close a cycle.',
      { path: '^((?:internal|cli|bootstrapper|joinservice)/[^/]+)/.+', pathNot: TEST },
      { path: '^$1/index\\.ts$' },
    ),
    rule(
      'R6-no-cycles',
      'No cycle of any kind, type-only imports included: move what both need below both.',
      {},
      { circular: true },
    ),
    rule(
      'R7-shipped-code-imports-no-test',
      'internal/testing, joinservice/testing, *.test.ts and fake-*.ts are for tests only and never shipped.',
      {
        path: '^(cli|bootstrapper|joinservice|initproto|internal)/',
        pathNot: [TEST, '^(internal|joinservice)/testing/'],
      },
      { path: [TEST, '^(internal|joinservice)/testing/', '^e2e/'] },
    ),
    rule(
      'R7-stories-see-only-what-is-shipped',
      'e2e drives built programs: it imports contracts, internal and the doubles of their clients, never the inside of one.',
      { path: '^e2e/' },
      { path: `^(${PROGRAMS})/`, pathNot: [`^${CONTRACTS}`, '^joinservice/testing/'] },
    ),
    rule(
      'imports-resolve',
      'This import names a file or package that does not exist.',
      // A story installs the issuer with its own package.json, like the Go peers with their go.mod.
      { pathNot: '^e2e/oidc-issuer/' },
      { couldNotResolve: true },
    ),
    rule(
      'packages-are-declared',
      'List the package in package.json: a package that another one installs may disappear with it.',
      { pathNot: '/gen/|^e2e/oidc-issuer/' },
      { dependencyTypes: ['npm-no-pkg', 'npm-unknown'] },
    ),
    rule(
      'shipped-code-needs-no-development-package',
      'Programs run without the development dependencies.',
      {
        path: '^(cli|bootstrapper|joinservice|initproto|internal)/',
        pathNot: [TEST, '^internal/testing/'],
      },
      { dependencyTypes: ['npm-dev'], dependencyTypesNot: ['type-only'], pathNot: 'node_modules/@types/' },
    ),
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    exclude: { path: '^(dist|node_modules/(?!@bufbuild))' },
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.json' },
    enhancedResolveOptions: {
      exportsFields: ['exports'],
      conditionNames: ['import', 'node', 'types', 'default'],
      extensions: ['.ts', '.d.ts', '.js', '.mjs', '.json'],
    },
  },
};
