import type { z } from 'zod';

/** What is wrong with a value, and where: `nodes.0.name`, or empty for the whole document. */
interface ShapeProblem {
  readonly path: string;
  readonly message: string;
}

type Issue = z.core.$ZodIssue;

const MAX_NAME = 60;

/**
 * The first problem of a document whose shape is wrong, for people: `takenMs: missing, expected a number`. The texts of
 * zod are for programmers.
 */
export function describeShape({ issues }: { readonly issues: readonly Issue[] }): string {
  const [issue] = issues;
  if (issue === undefined) return 'not in the expected form';
  const { path, message } = shapeProblemOf(issue);
  return path === '' ? message : `${path}: ${message}`;
}

/** The problem that an issue of zod stands for. */
export function shapeProblemOf(issue: Issue): ShapeProblem {
  const inner = innermostIssue(issue);
  const path = inner.path.map((part) => String(part).slice(0, MAX_NAME)).join('.');
  return { path, message: messageOf(inner) };
}

/**
 * The issue that tells most, with its whole path. Of the alternatives of a union, the one that fits best has the deepest
 * problem.
 */
export function innermostIssue(issue: Issue): Issue {
  if (issue.code !== 'invalid_union') return issue;
  const firsts = issue.errors.flatMap(([first]) => (first === undefined ? [] : [first]));
  const best = firsts.reduce<Issue | undefined>(
    (deepest, each) => (deepest === undefined || each.path.length > deepest.path.length ? each : deepest),
    undefined,
  );
  return best === undefined ? issue : innermostIssue({ ...best, path: [...issue.path, ...best.path] });
}

/** What a value must be, as a noun: `a number`, `one of a, b`, or the words of our own schema. */
export function expectedShape(issue: Issue): string {
  if (isOwn(issue.message)) return issue.message;
  switch (issue.code) {
    case 'invalid_type':
      return withArticle(issue.expected);
    case 'invalid_value':
      return `${issue.values.length > 1 ? 'one of ' : ''}${issue.values.map(String).join(', ')}`;
    case 'too_small':
      return `at least ${String(issue.minimum)}${unitOf(issue.origin)}`;
    case 'too_big':
      return `at most ${String(issue.maximum)}${unitOf(issue.origin)}`;
    case 'invalid_format':
      return issue.format === 'regex' ? 'a text of another form' : `a text of the form ${issue.format}`;
    default:
      return 'a value of another form';
  }
}

function messageOf(issue: Issue): string {
  if (issue.code === 'unrecognized_keys')
    return `unknown key ${JSON.stringify(issue.keys[0]?.slice(0, MAX_NAME))}`;
  if (isOwn(issue.message)) return issue.message;
  return issue.code === 'invalid_type' ? typeMessage(issue) : `expected ${expectedShape(issue)}`;
}

/** `undefined` as a whole document means that the text was not JSON. */
function typeMessage(issue: Issue): string {
  const found = /received (.+)$/.exec(issue.message)?.[1] ?? 'something else';
  if (found !== 'undefined') return `expected ${expectedShape(issue)}, found ${withArticle(found)}`;
  return issue.path.length === 0 ? 'not JSON' : `missing, expected ${expectedShape(issue)}`;
}

/** Whether the message is of this program. */
function isOwn(message: string): boolean {
  return !/^(Invalid|Too (small|big)|Unrecognized)\b/.test(message);
}

/** What was counted. */
function unitOf(origin: string): string {
  if (origin === 'string') return ' (characters)';
  return origin === 'array' || origin === 'set' ? ' (elements)' : '';
}

function withArticle(type: string): string {
  if (type === 'null' || type === 'NaN') return type;
  return `${/^[aeiou]/.test(type) ? 'an' : 'a'} ${type === 'int' ? 'integer' : type}`;
}
