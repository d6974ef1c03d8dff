import { parseArgs } from 'node:util';
import { DEFAULT_KUBERNETES_VERSION, KUBERNETES_VERSIONS } from '../../internal/bundle/index.ts';
import { parseShard, type Selection } from './specs.ts';

/** The parsed options of `npm run conformance`. */
export interface Options {
  readonly kubernetesVersion: string;
  readonly selection: Selection;
  /** Specs that run at the same time. */
  readonly procs: number;
  readonly controlPlanes: number;
  readonly workers: number;
  /** Run on a plain kubeadm cluster of the same machines, to compare. */
  readonly plain: boolean;
  /** Only print the names of the selected specs. */
  readonly list: boolean;
}

export const HELP = `Runs the upstream conformance tests on a local cluster, built from Go modules and Debian packages.

Usage: npm run conformance [-- OPTIONS]

  --focus REGEX         only specs whose name matches
  --skip REGEX          no specs whose name matches
  --shard I/N           the I-th of N equal parts of the specs
  --quick               the specs of e2e/conformance/quick-specs.txt
  --release MINOR       minor version of Kubernetes, such as 1.36 (newest)
  --procs N             specs that run at the same time (4)
  --control-planes N    (3)
  --workers N           (2)
  --plain               on a plain kubeadm cluster of equal machines
  --list                print the names of the selected specs

Needs root and the bundle of the release. Results are in dist/conformance, in the layout of a submission; the exit code is 10 when a
spec failed.
`;

/** @throws TypeError for an unknown option or a wrong value */
export function parseOptions(args: readonly string[]): Options | 'help' {
  const { values } = parseArgs({
    args: [...args],
    options: {
      focus: { type: 'string' },
      skip: { type: 'string' },
      shard: { type: 'string' },
      quick: { type: 'boolean', default: false },
      release: { type: 'string' },
      procs: { type: 'string', default: '4' },
      'control-planes': { type: 'string', default: '3' },
      workers: { type: 'string', default: '2' },
      plain: { type: 'boolean', default: false },
      list: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) return 'help';
  return {
    kubernetesVersion: releaseOf(values.release),
    selection: {
      focus: values.focus === undefined ? undefined : expression('focus', values.focus),
      skip: values.skip === undefined ? undefined : expression('skip', values.skip),
      shard: values.shard === undefined ? undefined : parseShard(values.shard),
      quick: values.quick,
    },
    procs: count('procs', values.procs, 1),
    controlPlanes: count('control-planes', values['control-planes'], 1),
    workers: count('workers', values.workers, 0),
    plain: values.plain,
    list: values.list,
  };
}

function releaseOf(minor: string | undefined): string {
  if (minor === undefined) return DEFAULT_KUBERNETES_VERSION;
  const found = KUBERNETES_VERSIONS.find((version) => version.startsWith(`v${minor}.`));
  if (found !== undefined) return found;
  const known = KUBERNETES_VERSIONS.map((version) => version.slice(1).split('.', 2).join('.'));
  throw new TypeError(`--release ${minor}: use one of ${known.join(', ')}`);
}

function expression(name: string, text: string): RegExp {
  try {
    return new RegExp(text);
  } catch (cause) {
    throw new TypeError(`--${name} ${text} is not a regular expression`, { cause });
  }
}

function count(name: string, text: string, least: number): number {
  const number = Number(text);
  if (Number.isInteger(number) && number >= least) return number;
  throw new TypeError(`--${name} ${text} is not a number of at least ${least}`);
}
