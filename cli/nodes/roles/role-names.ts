import { NodeRole } from '../../../joinservice/curatorproto/gen/curator_pb.js';
import { AppError } from '../../app/errors.ts';

/** What an operator says a node is to be. */
export type RoleName = 'control-plane' | 'worker';

const ROLES: Readonly<Record<RoleName, readonly NodeRole[]>> = {
  'control-plane': [NodeRole.CONSENSUS_MEMBER, NodeRole.KUBERNETES_CONTROLLER],
  worker: [NodeRole.KUBERNETES_WORKER],
};

export function rolesFromNames(words: readonly RoleName[]): readonly NodeRole[] {
  return (['control-plane', 'worker'] as const).flatMap((word) => (words.includes(word) ? ROLES[word] : []));
}

export function namesFromRoles(roles: readonly NodeRole[]): readonly RoleName[] {
  return (['control-plane', 'worker'] as const).filter((word) =>
    ROLES[word].every((role) => roles.includes(role)),
  );
}

/** "control-plane,worker" → words. @throws AdminError `admin-flag-invalid` */
export function parseRoleNames(text: string): readonly RoleName[] {
  return text.split(',').map((part) => {
    const word = part.trim();
    if (word === 'control-plane' || word === 'worker') return word;
    throw new AppError(
      'app-usage',
      `reading the roles ${JSON.stringify(text)}: control-plane, worker, or both with a comma`,
    );
  });
}

const KEY = /^([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?\/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$/;
const VALUE = /^([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?$/;

/** kubectl's way: KEY=VALUE sets, KEY- removes. @throws AdminError `admin-flag-invalid` */
export function parseLabelChanges(words: readonly string[]): {
  readonly set: Readonly<Record<string, string>>;
  readonly remove: readonly string[];
} {
  const set: Record<string, string> = {};
  const remove: string[] = [];
  for (const word of words) {
    const at = word.indexOf('=');
    const key = at < 0 ? word.replace(/-$/, '') : word.slice(0, at);
    const value = at < 0 ? undefined : word.slice(at + 1);
    const isRemoval = value === undefined && word.endsWith('-');
    if (!KEY.test(key) || (!isRemoval && value === undefined) || (value !== undefined && !VALUE.test(value)))
      throw new AppError(
        'app-usage',
        `reading the label ${JSON.stringify(word)}: KEY=VALUE to set it, KEY- to remove it`,
      );
    if (!isRemoval && isReserved(key))
      throw new AppError(
        'app-usage',
        `reading the label ${JSON.stringify(word)}: labels of kubernetes.io and k8s.io are set by Kubernetes itself`,
        { fix: 'Use a prefix of your own, such as example.org/zone, or none.' },
      );
    if (!isRemoval && Object.hasOwn(set, key) && set[key] !== value)
      throw new AppError(
        'app-usage',
        `reading labels: ${key} is to be both ${JSON.stringify(set[key])} and ${JSON.stringify(value)}`,
        { fix: 'Name each label once.' },
      );
    if (isRemoval) remove.push(key);
    else set[key] = value ?? '';
  }
  const both = remove.find((key) => key in set);
  if (both !== undefined)
    throw new AppError('app-usage', `reading labels: ${both} is to be set and removed`, {
      fix: 'Name each label once.',
    });
  return { set, remove };
}

/** Whether a label belongs to Kubernetes; a removal may take away what an older version let in. */
function isReserved(key: string): boolean {
  const [prefix = '', name] = key.split('/');
  return name !== undefined && /(^|\.)(kubernetes|k8s)\.io$/.test(prefix);
}
