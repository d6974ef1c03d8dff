import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { CodedError, EXIT_CODES, fault, type ExitName } from '../../internal/errors/index.ts';
import { createCuratorHarness } from '../cluster/curator/fake-curator.ts';
import { createCliHarness, type CliHarness } from './fake-cli.ts';
import { createTlsPeers, type TlsPeers } from './fake-tls-peers.ts';

interface Row {
  readonly args: string;
  readonly code: string;
  /** Default: usage. */
  readonly exit?: ExitName;
  /** Part of the message; default: the last word of the arguments. */
  readonly says?: string;
}

/** Rows that have the same error code and exit code. Text between apostrophes is one argument. */
function rows(code: string, exit: ExitName, table: Readonly<Record<string, string>>): readonly Row[] {
  return Object.entries(table).map(([args, says]) => ({ args, code, exit, says }));
}

/** Command lines that the parser refuses, or a check of a flag before anything is read. */
const USAGE = rows('app-usage', 'usage', {
  nodes: "unknown command 'nodes' (Did you mean node?)",
  'node nonsense': "unknown command 'nonsense'",
  'node rm n1': "unknown command 'rm' (Did you mean remove?)",
  'node list': "unknown command 'list' (Did you mean ls?)",
  'status --nonsense': "unknown option '--nonsense'",
  'init --fingerprint sha256:123': 'Must be sha256: and 64 lower-case hex digits',
  'status extra': 'too many arguments',
  'dashboard extra': 'too many arguments',
  'dashboard --port 8600': '--port needs --web',
  'dashboard --web --port 0': 'Must be 1 to 65535',
  '-o xml status': 'Allowed choices are human, wide, json, yaml, name',
  '--events file status': 'Allowed choices are stdout, stderr, none',
  '-o name status': '--output name is only for commands that list objects',
  '-o wide keys show':
    '--output wide is only for `status`, `node show`, `node remove`, `node reset` and for commands that list objects',
  '--no-headers status': '--no-headers is only for commands that list objects',
  '--passphrase-fd 1 status': 'Must be 0, or 3 to 1023',
  '--passphrase-fd x status': 'Must be 0, or 3 to 1023',
  'help nope': 'unknown command or help topic "nope"',
  'help node nope': 'unknown command or help topic "nope"',
  '--context a -w fresh status': '--context and --workspace exclude each other',
  "context add 'A B'": 'at most 63 lower-case letters',
  'completion names clouds': 'Allowed choices are nodes, contexts, local-clusters, machines',
  'completion tcsh': 'Allowed choices are bash, zsh, fish',
  'support bundle --local': "required option '--to <file>' not specified",
  'support bundle --local n1 --to x': '--local takes no names of nodes',
  'kubeconfig --server http://192.0.2.1:6443': 'Must be https://HOST:PORT',
  'kubeconfig --server https://user:secret@192.0.2.1:6443': 'Must be https://HOST:PORT',
  verify: "missing required argument 'node'",
  explain: "missing required argument 'node'",
  'node label n1': "missing required argument 'change'",
  'node label n1 x=1 x=2': 'label x is set twice',
  'node label n1 x=1 x-': 'label x is both set and removed',
  'node label n1 =1': 'invalid label "=1"',
  "node label n1 'a b=c'": 'invalid label "a b=c"',
  'node label n1 kubernetes.io/a=b': 'is reserved',
  'node label n1 node-role.kubernetes.io/control-plane=': 'is reserved',
  'node ls -l': 'argument missing',
  "node ls -l 'zone in (a)'": 'invalid label selector "zone in (a)"',
  'node ls --joins --removed': "cannot be used with option '--joins'",
  'node ls --joins -l zone=a': "cannot be used with option '-l, --selector",
  'node approve': "missing required argument 'machine'",
  'node approve x --roles boss': 'invalid roles "boss"',
  'node taint n1': "missing required argument 'change'",
  'node taint n1 a=1:NoSchedule a=2:NoSchedule': 'taint a:NoSchedule is set twice',
  'node taint n1 a=1:NoSchedule a-': 'taint a:NoSchedule is both set and removed',
  'node taint n1 a=1': 'invalid taint "a=1"',
  'node taint n1 a=1:NoStart': 'unknown effect NoStart',
  'node taint n1 node.kubernetes.io/not-ready:NoExecute': 'is reserved',
  'node approve x --taint a:NoSchedule-': 'cannot be removed here',
  'node approve x --label foo': 'invalid label "foo"',
  "node approve x --name 'A B'": 'at most 63 lower-case letters',
  'node logs n1 --backlog -1': 'Must be 0 to 10000',
  'node logs n1 --backlog 1e9': 'Must be 0 to 10000',
  'node logs n1 --unit ../x': 'invalid unit "../x"',
  'node logs n1 --exact': '--exact needs --path',
  "node logs n1 --path 'a b'": 'invalid path "a b"',
  'node logs n1 --path a --unit kubelet': 'cannot combine --path with --unit',
  'node logs n1 --audit --unit kubelet': 'cannot combine --audit',
  'node drain n1 --timeout 5': 'Must be a duration such as 90s',
  'node drain n1 --timeout 0s': 'Must be a duration such as 90s',
  'node set-role n1': 'no role given for node n1',
  'node set-role n1 --boss': "unknown option '--boss'",
  'node cloud-init --format xml': 'Allowed choices are cloud-init, provisioning',
  "-w owner node cloud-init --endpoint 'a b'": 'invalid endpoint "a b"',
  '-w owner node cloud-init --endpoint x:0': 'invalid endpoint "x:0"',
  "join --endpoint 'a b'": 'Must be HOST or HOST:PORT',
  'join --endpoint x:99999': 'Must be HOST or HOST:PORT',
  "join --node 'a b'": 'Must be HOST or HOST:PORT',
  'join --node 127.0.0.1 --fingerprint foo': 'Must be sha256: and 64 lower-case hex digits',
  'join --timeout 5': 'Must be a duration',
  "preflight --node 'a b'": 'Must be HOST or HOST:PORT',
  'preflight --fingerprint x': 'Must be sha256: and 64 lower-case hex digits',
  [`preflight --fingerprint sha256:${'0'.repeat(64)}`]: '--fingerprint needs --node',
  [`join --fingerprint sha256:${'0'.repeat(64)}`]: '--fingerprint needs --node',
  '-w owner config edit': 'needs a terminal',
  'config apply nofile': 'too many arguments',
  'config apply': 'cluster.yaml not found',
  'provisioning generate --processor foo': 'Allowed choices are sev-snp, tdx',
  'operator key': "missing required argument 'name'",
  "operator key 'A B'": 'invalid operator name "A B"',
  'operator add ann': "required option '--role <role>' not specified",
  'operator add ann --role boss --request text': 'Allowed choices are viewer, operator, owner',
  '-w owner operator add ann --role viewer --request nofile': 'file nofile not found',
  '-w owner operator add ann --role viewer --request text': 'not a PEM certificate request',
  'operator remove': "missing required argument 'name'",
  'sign --out x': '--out without a request',
  '-w owner sign nofile': 'file nofile not found',
  'node approve x --request-signature a --signed b': "cannot be used with option '--signed <file>'",
  'config apply --request-signature a --signed b': "cannot be used with option '--signed <file>'",
  '-w owner node readmit w1 --signed nofile': 'this workspace has an owner key',
  'audit verify nofile': 'file nofile not found',
  'audit ls --last -1': 'Must be 1 to 1000000',
  'audit ls --last x': 'Must be 1 to 1000000',
  'restore x --control-plane n2': 'Must be sha256: and 64 lower-case hex digits',
  [`restore x --control-plane N_2=sha256:${'0'.repeat(64)}`]: 'at most 63 lower-case letters',
  [`restore x --control-plane n2=sha256:${'0'.repeat(64)} --control-plane n3=sha256:${'0'.repeat(64)}`]:
    'Must name each machine once',
  'backup schedule set --copy-to s3://b/p': '--s3-endpoint is needed',
  'backup schedule set --copy-to /mnt/b --s3-region eu-1': 'only for a target s3://',
  'backup ls directory --s3-region eu-1': 'only for a target s3://',
  'backup ls s3://backups': '--s3-endpoint is needed',
  'backup fetch --to new --s3-ca file': 'only for a target s3://',
  'backup fetch s3://backups/key --to new --s3-endpoint http://u:p@192.0.2.1':
    'endpoint: expected https://HOST',
  'backup create text': "too many arguments for 'create'",
  'package repo': "missing required argument 'directory'",
  'image build': "required option '--provisioning <file>' not specified",
  'image build --provisioning text --out out --format vmdk': 'Must be a list of raw, qcow2, iso, netboot',
  'attest explain nofile': "required option '--variant <name>' not specified",
  'attest approve': "missing required argument 'node'",
  'node rotate-disk-keys': "missing required argument 'node'",
  'recover disk': "missing required argument 'node'",
  "recover disk n1 --address 'a b'": 'Must be HOST or HOST:PORT',
  'bundle build --use-releases mirror.example.com': 'Must be a URL such as https://',
  'bundle fetch --mirror ftp://mirror.example.com': 'Must be a URL such as https://',
  'recover disk n1 --console --address 192.0.2.1': 'cannot be used with',
  'recover disk n1 --machine sha256:00': 'Must be tpm-ek: and 64 lower-case hex digits',
  'mini up --control-planes 0': 'Must be 1 to 7',
  'mini up --control-planes x': 'Must be 1 to 7',
  'mini up --workers -1': 'Must be 0 to 20',
  'mini up --ip-family ipv5': 'Allowed choices are ipv4, ipv6, dual',
  'mini up --machines x': 'Allowed choices are container, vm',
  'mini preflight --machines x': 'Allowed choices are container, vm',
  'doctor --at x': 'Must be a duration',
  'doctor --at ++400d': 'Must be a duration',
  'doctor --watch --at 4d': '--watch cannot be combined',
});

/** Files and directories that are missing, of the wrong kind, or cannot be written. */
const FILES = [
  ...rows('workspace-missing', 'usage', {
    '-w nowhere status': 'nowhere/cluster.yaml does not exist',
    'keys rotate': 'cluster.yaml does not exist',
  }),
  ...rows('workspace-identity-missing', 'usage', {
    '-w owner --identity nofile status': 'nofile does not exist',
    'operator accept text': 'identity.json does not exist',
  }),
  ...rows('workspace-key-mode', 'precondition', { '-w owner --identity text status': 'are too open' }),
  ...rows('file-wrong-kind', 'precondition', {
    '-w owner --identity directory status': 'EISDIR: illegal operation on a directory',
    '-w text config generate --attestation tpm': 'ENOTDIR: not a directory',
    '-w /dev/null/x config generate --attestation tpm': 'creating directory /dev/null/x',
    'provisioning validate directory': 'reading directory',
    '-w owner provisioning generate --out /dev/null/x': 'creating /dev/null/x',
    '-w owner operator add ann --role viewer --request directory': 'reading directory',
    'audit verify directory': 'reading directory',
    '-w owner sign directory': 'reading directory',
    'backup show directory': 'reading directory',
    'operator key ann --request directory': 'writing directory: it is a directory',
    '-w owner provisioning generate --out directory': 'writing directory: it is a directory',
    '-w owner audit export directory': 'writing directory: it is a directory',
  }),
  ...rows('file-missing', 'precondition', {
    '-w /proc/x config generate --attestation tpm': 'creating directory /proc/x',
    '-w owner provisioning generate --out /proc/x': 'creating /proc/x',
  }),
  ...rows('file-permission', 'precondition', {
    '-w /sys/x config generate --attestation tpm': 'creating directory /sys/x',
  }),
  ...rows('attest-tpm-unusable', 'precondition', {
    'attest measure --tpm /dev/null':
      'TPM /dev/null unusable: reading a response: the device returned no bytes',
    'attest measure --tpm /dev/zero': 'TPM /dev/zero unusable',
    'attest measure --tpm /dev/no-such-tpm': 'TPM /dev/no-such-tpm unusable',
    'attest measure --tpm nofile': 'TPM nofile unusable',
    'attest measure --tpm text': 'TPM text unusable',
    'attest measure --tpm directory': 'TPM directory unusable',
  }),
  ...rows('config-provisioning-invalid', 'usage', {
    'provisioning validate nofile': 'file is empty or does not exist',
    'provisioning validate empty': 'file is empty or does not exist',
    'provisioning validate bad.json': 'reading bad.json: not JSON: it ends too early',
    'image build --provisioning text --out out': 'reading text: not JSON',
  }),
  ...rows('bundlebuild-lock-invalid', 'usage', {
    'bundle fetch --lock text': 'reading lock file text: not JSON',
  }),
  ...rows('app-file-exists', 'precondition', {
    '-w owner provisioning generate --out text': 'text exists, with other content',
    'operator key ann --request text': 'text exists, with other content',
    '-w owner operator add ann --role viewer --request ann.csr --out text': 'text exists, with other content',
    '-w owner audit export text': 'text exists, with other content',
    '-w owner doctor --save-facts text': 'text exists, with other content',
    '-w owner explain n1 --html text': 'text exists, with other content',
    '-w owner explain n1 --html link': 'link exists, with other content',
  }),
  ...rows('sign-file-malformed', 'usage', {
    '-w owner sign text': 'reading a request: not JSON',
    '-w owner sign shape.json': 'reading a request: request: missing',
  }),
  ...rows('doctor-facts-malformed', 'usage', {
    'doctor --facts shape.json': 'reading facts: takenMs: missing',
  }),
  ...rows('collateral-malformed', 'refused', {
    'attest collateral text': 'reading a collateral bundle: not JSON',
    'attest collateral shape.json': 'reading a collateral bundle: assembled: missing',
  }),
  ...rows('audit-export-invalid', 'usage', {
    'audit verify text': 'line 1 of the export is not an entry',
    'audit verify empty': 'the export has no entries',
  }),
  ...rows('backup-not-found', 'usage', {
    'backup ls nofile': 'directory nofile not found',
    'backup ls text': 'directory text not found',
    'backup delete nofile': 'nofile not found',
  }),
  ...rows('doctor-facts-missing', 'usage', { 'doctor --facts nofile': 'nofile not found' }),
  ...rows('image-option', 'usage', {
    'image build --provisioning nofile --out out': 'provisioning file nofile not found',
  }),
  ...rows('package-not-found', 'precondition', { 'package repo nofile': 'no packages' }),
];

/** Values that only the command itself can judge. */
const VALUES = [
  ...rows('cloudinit-package-path', 'usage', { 'node cloud-init --package ftp://x': 'ftp://x' }),
  ...rows('cloudinit-package-unverified', 'usage', {
    'node cloud-init --package https://x': 'needs --package-sha256',
  }),
  ...rows('cloudinit-package-invalid', 'usage', {
    'node cloud-init --package https://x --package-sha256 zz': 'use 64 hex digits',
  }),
  ...rows('provisioning-no-owner', 'usage', { 'provisioning generate': 'owner-key.pem not found' }),
  ...rows('provisioning-flag-invalid', 'usage', {
    'provisioning generate --owner-key x':
      '--owner-key must be the base64 of a raw 32-byte Ed25519 public key',
    '-w owner provisioning generate --address 1.2.3': '--address must be an IP address',
    "-w owner provisioning generate --node-name 'A B'": '--node-name must be a DNS label',
    "-w owner provisioning generate --join-endpoint 'a b'": '--join-endpoint must be',
    '-w owner provisioning generate --tpm tpm0': '--tpm must be an absolute path',
    '-w owner provisioning generate --state-disk disk': '--state-disk must be a path below /dev',
    '-w owner provisioning generate --state-disk /dev/x --state-disk-pcrs x': '--state-disk-pcrs must be',
    '-w owner provisioning generate --state-disk /dev/x --no-tpm': 'without --no-tpm',
    '-w owner provisioning generate --no-state-disk-integrity': '--state-disk must be given too',
    '-w owner provisioning generate --state-disk /dev/x --recovery-recipient x':
      '--recovery-recipient must be',
  }),
  ...rows('config-invalid', 'usage', {
    "-w new config generate --attestation tpm --name 'A B'": 'name is "A B"',
    '-w new config generate --attestation tpm --kubernetes-version 1': 'kubernetesVersion',
  }),
  ...rows('support-recipient-missing', 'usage', {
    'support bundle --local --to x.support': 'no recipient, and the machine knows none',
  }),
  ...rows('backup-recipient-invalid', 'usage', {
    'support bundle --local --to x.support --recipient age1x': 'wrong checksum',
  }),
  ...rows('cluster-config-exists', 'precondition', {
    '-w fresh config generate --name other': 'differs from --name other',
  }),
  ...rows('workspace-passphrase-needed', 'precondition', {
    '-w fresh config passphrase': 'there is no terminal to ask at',
  }),
  ...rows('cluster-no-node', 'usage', {
    '-w fresh init': 'no address of the first machine',
    '-w fresh init --node 1.2.3.4.5': 'invalid address "1.2.3.4.5"',
    "-w fresh init --node 'a b'": 'invalid address "a b"',
  }),
  ...rows('cluster-no-fingerprint', 'usage', {
    '-w fresh init --node 127.0.0.1': 'fingerprint of 127.0.0.1:9000 is not known',
  }),
  ...rows('cluster-not-initialized', 'precondition', {
    '-w fresh status': 'cluster not initialized',
    '-w fresh node ls': 'cluster not initialized',
    '-w fresh attest approve n1': 'cluster not initialized',
    '-w fresh node rotate-disk-keys n1': 'cluster not initialized',
    '-w fresh kubeconfig --renew': 'cluster not initialized',
  }),
  ...rows('cluster-join-no-endpoint', 'usage', {
    '-w fresh join --node 127.0.0.1': 'no control-plane node known',
  }),
  ...rows('bundle-version-unknown', 'usage', {
    'bundle build --kubernetes-version 1': 'Kubernetes version "1" not supported',
    'bundle fetch --kubernetes-version v9.9.9': 'Kubernetes version "v9.9.9" not supported',
    'bundle verify --kubernetes-version v9.9.9': 'Kubernetes version "v9.9.9" not supported',
    "bundle ls --kubernetes-version '../x'": 'Kubernetes version "../x" not supported',
  }),
  ...rows('localmachines-invalid-name', 'usage', { "mini up --name 'A B'": 'invalid cluster name "A B"' }),
  ...rows('mini-vm-option', 'usage', {
    'mini up --machines vm --ip-family ipv6': 'virtual machines have IPv4 addresses only',
  }),
  ...rows('localmachines-cluster-not-found', 'precondition', {
    'mini exec n1 --name nope -- true': 'local cluster "nope" not found',
    'mini start n1 --name nope': 'local cluster "nope" not found',
    'mini stop n1 --name nope': 'local cluster "nope" not found',
  }),
  ...rows('backup-target', 'usage', {
    'backup create': 'one target expected',
    'backup create --to new.backup --into directory': 'one target expected',
    'backup create --to new.backup --keep 3': 'one target expected',
    'backup create --into directory --work-dir directory': 'one target expected',
  }),
  ...rows('contexts-unknown', 'usage', {
    'context use nope': 'context "nope" not found',
    'context remove nope': 'context "nope" not found',
    '--context nope status': 'context "nope" not found',
  }),
  ...rows('contexts-no-workspace', 'usage', { 'context add x directory': 'is no workspace' }),
  ...rows('recover-console-challenge-invalid', 'usage', {
    'recover disk n1 --console': 'nobody has given it',
    'recover disk n1 --console UUUUU': 'group 1 is mistyped',
  }),
  ...rows('app-unknown-error-code', 'usage', { 'help errors nope': 'unknown error code "nope"' }),
];

const ANY_FINGERPRINT = `sha256:${'0'.repeat(64)}`;
const ANY_MACHINE = `tpm-ek:${'0'.repeat(64)}`;
const NO_TLS = 'the peer does not speak TLS';
const OLD_TLS = 'the peer refused it with the TLS alert "protocol version"';
const CLOSED = 'disconnected before secure TLS connection was established';

/** Addresses of servers that are no machine of a cluster: `{old}` is the address of the server "old" (fake-tls-peers.ts). */
const PEERS = [
  ...rows('atls-tls-alpn', 'refused', {
    [`-w fresh init --node {foreign} --fingerprint ${ANY_FINGERPRINT}`]: 'no application protocol',
    [`-w owner join --node {foreign} --fingerprint ${ANY_FINGERPRINT}`]: 'no application protocol',
  }),
  ...rows('atls-tls-version', 'refused', {
    [`-w fresh init --node {old} --fingerprint ${ANY_FINGERPRINT}`]: OLD_TLS,
    [`-w owner join --node {old} --fingerprint ${ANY_FINGERPRINT}`]: OLD_TLS,
    [`-w owner preflight --node {old} --fingerprint ${ANY_FINGERPRINT}`]: OLD_TLS,
  }),
  ...rows('atls-tls-failed', 'refused', {
    [`-w fresh init --node {plain} --fingerprint ${ANY_FINGERPRINT}`]: NO_TLS,
    [`-w owner join --node {plain} --fingerprint ${ANY_FINGERPRINT}`]: NO_TLS,
    [`-w owner recover disk n1 --address {plain} --machine ${ANY_MACHINE}`]: NO_TLS,
  }),
  ...rows('atls-connection', 'unreachable', {
    [`-w owner join --node {closing} --fingerprint ${ANY_FINGERPRINT}`]: CLOSED,
  }),
  ...rows('rpc-handshake', 'refused', {
    '-w at-foreign node ls': 'the peer speaks another protocol',
    '-w at-old node ls': OLD_TLS,
    '-w at-plain keys show': NO_TLS,
  }),
  ...rows('cluster-curator-unreachable', 'unreachable', { '-w at-closing node ls': CLOSED }),
  ...rows('bundlebuild-download', 'unreachable', {
    'bundle fetch --mirror https://{foreign}': 'unsuitable certificate purpose',
    'bundle fetch --mirror https://{old}': OLD_TLS,
    'bundle fetch --mirror https://{plain}': NO_TLS,
    'bundle fetch --mirror https://{closing}': CLOSED,
  }),
];

/** Names that the cluster does not know. */
const CLUSTER = rows('curator-node-unknown', 'precondition', {
  '-w owner node show n9': 'node "n9" not found',
  '-w owner node label n9 a=b': 'node "n9" not found',
  '-w owner node taint n9 a:NoSchedule': 'node "n9" not found',
  '-w owner node logs n9 --path root': 'node "n9" not found',
  '-w owner node metrics n9': 'node "n9" not found',
  '-w owner verify n9': 'node "n9" not found',
});

const TABLE = [...USAGE, ...FILES, ...VALUES, ...PEERS, ...CLUSTER];

/** Texts of libraries and paths of temporary files, which tell an operator nothing. */
const TEXTS_OF_LIBRARIES =
  /\.tmp\b|node:internal|Unexpected token|is not valid JSON|JSON input|in JSON at|Invalid input|✖|invalid_type|: : |parseAllDocuments|ssl3_|routines:|openssl/;

let cli: CliHarness;
let cluster: AsyncDisposable | undefined;
let peers: TlsPeers;
beforeAll(async () => {
  cli = await createCliHarness();
  const specs = { 'curator-node-unknown': fault.operator.precondition('No such node.', 'List the nodes.') };
  const unknown = (): never => {
    throw new CodedError(specs, 'curator-node-unknown', 'node "n9" not found');
  };
  const refuse = async (): Promise<never> => unknown();
  const harness = await createCuratorHarness(
    { getNode: refuse, updateNodeLabels: refuse, updateNodeTaints: refuse },
    { getTrace: async () => ({ nodeName: 'n1', facts: [] }) },
    { getMetrics: refuse, getEvidence: refuse },
  );
  cluster = harness;
  await cli.copy(harness.files, '/owner', 'owner');
  peers = await createTlsPeers();
  const state = await readFile(join(cli.root, 'owner/state.json'), 'utf8');
  for (const [name, address] of Object.entries(peers.addresses)) {
    await cli.copy(harness.files, '/owner', `at-${name}`);
    await writeFile(join(cli.root, `at-${name}`, 'state.json'), state.replaceAll(harness.endpoint, address));
  }
  await cli.run(['-w', 'fresh', 'config', 'generate', '--attestation', 'tpm']);
  await mkdir(join(cli.root, 'directory'));
  const files = { empty: '', text: 'hello\n', 'bad.json': '{"a":', 'shape.json': '{"version":1}' };
  for (const [name, text] of Object.entries(files))
    await writeFile(join(cli.root, name), text, { mode: 0o644 });
  await symlink('text', join(cli.root, 'link'));
  await cli.run(['-w', 'ann', 'operator', 'key', 'ann', '--request', 'ann.csr']);
});
afterAll(async () => {
  await cli[Symbol.asyncDispose]();
  await cluster?.[Symbol.asyncDispose]();
  await peers[Symbol.asyncDispose]();
});

describe('a wrong input', () => {
  test('has at least a hundred examples', () => {
    expect(new Set(TABLE.map(({ args }) => args)).size).toBeGreaterThanOrEqual(100);
  });

  test.each(TABLE)('`cluster $args` is refused with $code, and nothing is changed', async (row) => {
    const { args, code, exit = 'usage', says = '' } = row;
    const given = args.replace(/\{(\w+)\}/, (_, name: keyof TlsPeers['addresses']) => peers.addresses[name]);
    const words = [...given.matchAll(/'([^']*)'|(\S+)/g)].map((match) => match[1] ?? match[2] ?? '');
    const before = await cli.snapshot();
    const run = await cli.run(words);
    expect(run).toMatchObject({ code: EXIT_CODES[exit].number, out: '' });
    expect(run.err).toContain(says);
    const fields = Object.fromEntries(
      [...run.err.matchAll(/^ {2}(fix|code): +(.*)$/gm)].map(([, field = '', text]) => [field, text]),
    );
    expect(fields['code']).toMatch(new RegExp(`^${code} `));
    expect(fields['fix']).toMatch(/^[A-Z].*[^ ]$/);
    expect(fields['fix']).not.toBe('See `cluster help`.');
    expect(run.err).not.toMatch(TEXTS_OF_LIBRARIES);
    expect(await cli.snapshot()).toEqual(before);
  });
});
