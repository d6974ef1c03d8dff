import { NodeRole } from '../../../joinservice/curatorproto/gen/curator_pb.js';
import { isLabelKey, isLabelValue, isReservedLabel, type RoleName } from '../../../internal/role/index.ts';
import { AppError } from '../../app/errors.ts';

const ROLES: Readonly<Record<RoleName, readonly NodeRole[]>> = {
  'control-plane': [NodeRole.CONSENSUS_MEMBER, NodeRole.KUBERNETES_CONTROLLER],
  worker: [NodeRole.KUBERNETES_WORKER],
};

/** Protobuf roles of role names. */
export function rolesFromNames(words: readonly RoleName[]): readonly NodeRole[] {
  return (['control-plane', 'worker'] as const).flatMap((word) => (words.includes(word) ? ROLES[word] : []));
}

/** Role names of protobuf roles. A name needs all of its roles. */
export function namesFromRoles(roles: readonly NodeRole[]): readonly RoleName[] {
  return (['control-plane', 'worker'] as const).filter((word) =>
    ROLES[word].every((role) => roles.includes(role)),
  );
}

/** Parses e.g. "control-plane,worker". @throws AppError `app-usage` */
export function parseRoleNames(text: string): readonly RoleName[] {
  return text.split(',').map((part) => {
    const word = part.trim();
    if (word === 'control-plane' || word === 'worker') return word;
    throw new AppError(
      'app-usage',
      `invalid roles ${JSON.stringify(text)}: use control-plane, worker or control-plane,worker`,
    );
  });
}

/** Parses changes as kubectl does: KEY=VALUE sets, KEY- removes. @throws AppError `app-usage` */
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
    const isValue = isRemoval || (value !== undefined && isLabelValue(value));
    if (!isLabelKey(key) || !isValue)
      throw new AppError(
        'app-usage',
        `invalid label ${JSON.stringify(word)}: use KEY=VALUE to set it, KEY- to remove it`,
      );
    // An older version may have set a reserved label, so it can be removed.
    if (!isRemoval && isReservedLabel(key))
      throw new AppError(
        'app-usage',
        `label ${JSON.stringify(word)} is reserved: labels of kubernetes.io and k8s.io belong to Kubernetes`,
        { fix: 'Use another prefix, such as example.org/zone, or none.' },
      );
    if (!isRemoval && Object.hasOwn(set, key) && set[key] !== value)
      throw new AppError(
        'app-usage',
        `label ${key} is set twice: to ${JSON.stringify(set[key])} and ${JSON.stringify(value)}`,
        { fix: 'Name each label once.' },
      );
    if (isRemoval) remove.push(key);
    else set[key] = value ?? '';
  }
  const both = remove.find((key) => key in set);
  if (both !== undefined)
    throw new AppError('app-usage', `label ${both} is both set and removed`, {
      fix: 'Name each label once.',
    });
  return { set, remove };
}
