/** A change to what kube-bench sees on a machine. The machine itself stays as it is. */
export interface Loss {
  /** `--profiling of kube-apiserver`, `authentication.anonymous of /var/lib/kubelet/config.yaml`. */
  readonly name: string;
  /** Shell commands in a mount namespace of their own. */
  readonly script: string;
}

const WORK = '/opt/kube-bench/lost';
/** The largest number of levels of a configuration file whose keys are removed one by one. */
const MAX_DEPTH = 3;

/** One loss for each flag of a process, as `ps` prints its command line: the flag is missing in what `ps` prints. */
export function lostFlags(program: string, commandLine: string): readonly Loss[] {
  const flags = new Set([...commandLine.matchAll(/(?<= )--[a-z\d-]+/g)].map(([flag]) => flag));
  return [...flags].map((flag) => ({
    name: `${flag} of ${program}`,
    script: `cp -p /bin/ps ${WORK}/ps
      cat > ${WORK}/filter <<'EOF'
/${program}/s/ ${flag}(=[^ ]*)?( |$)/ /g
EOF
      printf '#!/bin/sh\\n%s "$@" | sed -E -f %s\\n' ${WORK}/ps ${WORK}/filter > ${WORK}/less
      chmod 755 ${WORK}/less
      mount --bind ${WORK}/less "$(readlink -f /bin/ps)"`,
  }));
}

/** One loss for each key of a configuration file, at every level down to `MAX_DEPTH`. */
export function lostKeys(path: string, value: unknown): readonly Loss[] {
  return keysOf(value, []).map((keys) => ({
    name: `${keys.join('.')} of ${path}`,
    script: `cat > ${WORK}/less <<'EOF'
${JSON.stringify(without(value, keys))}
EOF
      chmod 600 ${WORK}/less
      mount --bind ${WORK}/less ${path}`,
  }));
}

/** All files that checks look at belong to somebody else, and everybody may write them. */
export function looseFiles(paths: readonly string[]): Loss {
  const loosen = paths.map((path, index) => {
    const copy = `${WORK}/${index}`;
    // Directories of data may be large; only those of settings are searched for files.
    const directory = path.startsWith('/etc/') ? `cp -a ${path} ${copy}` : `mkdir ${copy}`;
    return `
      if [ -f ${path} ]; then cp -a ${path} ${copy}; elif [ -d ${path} ]; then ${directory}; fi
      if [ -e ${copy} ]; then
        chown -R nobody:nogroup ${copy} && chmod -R 777 ${copy} && mount --bind ${copy} ${path}
      fi`;
  });
  return { name: 'owners and modes of files', script: loosen.join('') };
}

/**
 * The script that runs a command in a mount namespace in which something is lost. It has to be in a file, because `ps` prints the arguments
 * of every program, and checks would find the lost flag in them.
 */
export function withLoss({ script }: Loss, command: string): string {
  return `[ "$1" = inside ] || exec unshare --mount --propagation private sh "$0" inside
set -e
rm -rf ${WORK}
mkdir -p ${WORK}
${script}
${command}
`;
}

/** The absolute paths in the command of a check, such as `/bin/sh -c 'stat -c %U:%G /etc/kubernetes/admin.conf'`. */
export function pathsIn(audit: string): readonly string[] {
  const paths = [...audit.matchAll(/(?<![\w.])\/(?:etc|var|lib|usr\/lib\/systemd)\/[\w./-]*[\w]/g)];
  return [...new Set(paths.map(([path]) => path))];
}

function keysOf(value: unknown, above: readonly string[]): readonly (readonly string[])[] {
  if (above.length >= MAX_DEPTH || typeof value !== 'object' || value === null || Array.isArray(value))
    return [];
  return Object.entries(value).flatMap(([key, each]) => [[...above, key], ...keysOf(each, [...above, key])]);
}

function without(value: unknown, [key = '', ...below]: readonly string[]): unknown {
  const { [key]: lost, ...others } = value as Readonly<Record<string, unknown>>;
  return below.length === 0 ? others : { ...others, [key]: without(lost, below) };
}
