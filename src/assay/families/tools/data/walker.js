(function () {
  "use strict";
  const { apply, construct, ownKeys, getOwnPropertyDescriptor: describe, defineProperty: define, deleteProperty: remove } = Reflect;
  const { getPrototypeOf, setPrototypeOf } = Reflect;
  const { create, is, prototype: ObjectPrototype } = Object;
  const { isArray, prototype: ArrayPrototype } = Array;
  const { join } = ArrayPrototype;
  const { parse, stringify } = JSON;
  const { isFinite, isSafeInteger } = Number;
  const { hasOwnProperty, toString: tagOf } = ObjectPrototype;
  const { toStringTag } = Symbol;
  const { slice, charCodeAt } = String.prototype;
  const { get: stackOf } = describe(Error.prototype, "stack");
  const { has: mapHas, set: mapSet } = Map.prototype;
  const Fault = Error;
  const Clock = Date;
  const ABSENT = { __proto__: null };
  const BRANDS = [[Date.prototype, "Date"], [RegExp.prototype, "RegExp"], [Map.prototype, "Map"], [Set.prototype, "Set"],
    [Promise.prototype, "Promise"], [Error.prototype, "Error"], [String.prototype, "String object"], [Number.prototype, "Number object"],
    [Boolean.prototype, "Boolean object"], [Function.prototype, "function"]];
  const NAMES = BRANDS.length;
  const fixed = (value) => ({ __proto__: null, value, writable: true, enumerable: false, configurable: true });

  let broke = null;
  let readExport;
  function refuse(what, isCall) {
    const fault = new Fault(what);
    if (broke === null) broke = { __proto__: null, what, stack: isCall ? apply(stackOf, fault, []) : "" };
    throw fault;
  }
  function forbid(owner, name, what) {
    const ask = () => refuse(what, false);
    if (!define(owner, name, { __proto__: null, get: ask, set: ask, enumerable: false, configurable: false })) throw new Fault(what);
  }
  function forbidCall(owner, name, what) {
    define(owner, name, { __proto__: null, value: function () { return refuse(what, true); }, writable: false, enumerable: false, configurable: false });
  }

  const listed = { __proto__: null };
  for (const [owners, names] of Object.entries(LANGUAGE)) for (const owner of owners.split(" ")) listed[owner] = names.split(" ");
  const OF_FUNCTIONS = ["length", "name", "prototype"];
  const labelOf = (key) => (typeof key === "symbol" ? "@" + key.description.slice(7) : key);
  function replace(name, made) {
    const real = globalThis[name];
    for (const key of ownKeys(real)) {
      define(made, key, OF_FUNCTIONS.includes(key) || listed[name].includes(key) ? describe(real, key) : fixed(undefined));
    }
    define(real.prototype, "constructor", fixed(made));
    define(globalThis, name, fixed(made));
  }
  const Sign = Symbol;
  replace("Symbol", { Symbol(...given) { return apply(Sign, undefined, given); } }.Symbol);
  replace("Date", function Date(...given) {
    if (new.target === undefined || given.length === 0) return refuse("the clock: `Date` without a date", true);
    return construct(Clock, given, new.target);
  });

  const kept = new Set();
  function restrict(owner, name) {
    if (typeof owner === "function" ? ownKeys(owner).length === 2 : typeof owner !== "object" || owner === null) return;
    if (kept.has(owner)) return;
    kept.add(owner);
    const left = new Set(listed[name]);
    for (const key of ownKeys(owner)) {
      const label = labelOf(key);
      if (left.delete(label) || (typeof owner === "function" && OF_FUNCTIONS.includes(key))) {
        if (key !== "constructor") restrict(describe(owner, key).value, name === "" ? label : name + "." + label);
      } else if (owner !== globalThis) forbid(owner, key, "`" + (key.description ?? key) + "`");
      else if (!remove(owner, key)) throw new Fault("the engine keeps " + label);
    }
    for (const label of left) throw new Fault("the engine has no " + name + "." + label);
  }
  const hidden = { "Function.prototype": refuse, "AsyncFunction.prototype": async function () {}, "GeneratorFunction.prototype": function* () {},
    "AsyncGeneratorFunction.prototype": async function* () {}, "ArrayIterator.prototype": [].values(), "StringIterator.prototype": ""[Symbol.iterator](),
    "MapIterator.prototype": new Map().values(), "SetIterator.prototype": new Set().values(), "RegExpStringIterator.prototype": "".matchAll(/x/g),
    "Iterator.prototype": getPrototypeOf([].values()), "AsyncIterator.prototype": getPrototypeOf((async function* () {}).prototype), TypedArray: Uint8Array };
  for (const name of ["fileName", "lineNumber", "columnNumber"]) remove(getPrototypeOf(refuse), name);
  for (const name of ownKeys(hidden)) restrict(getPrototypeOf(hidden[name]), name);
  restrict(globalThis, "");
  for (const owner of kept) {
    const parent = getPrototypeOf(owner);
    if (parent !== null && !kept.has(parent)) throw new Fault("the engine has an unknown prototype");
  }
  forbidCall(globalThis.Date, "now", "the clock: `Date.now`");
  forbidCall(Math, "random", "chance: `Math.random`");
  for (const name of ["acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "cos", "cosh", "exp", "expm1", "hypot", "log", "log10", "log1p",
    "log2", "pow", "sin", "sinh", "tan", "tanh"]) forbidCall(Math, name, "the last digits of `Math." + name + "`");
  function check(owner, name, differs) {
    const real = owner[name];
    const checked = { [name](...given) {
      if (differs(this, given)) refuse("`" + name + "` of what differs from engine to engine", true);
      return apply(real, this, given);
    } }[name];
    define(checked, "length", { __proto__: null, value: real.length, writable: false, enumerable: false, configurable: true });
    define(owner, name, fixed(checked));
  }
  check(JSON, "parse", (self, given) => typeof given[1] === "function");
  check(Number.prototype, "toString", (self, given) => given[0] !== undefined && given[0] !== 10 && !isSafeInteger(typeof self === "number" ? self : NaN));
  for (const name of ["toLowerCase", "toUpperCase", "normalize"]) check(String.prototype, name, (self) => {
    if (typeof self !== "string") return true;
    for (let i = 0; i < self.length; i += 1) if (apply(charCodeAt, self, [i]) > 0x24f) return true;
    return false;
  });
  for (const [owner, names] of [[Number.prototype, ["toLocaleString"]], [BigInt.prototype, ["toLocaleString"]], [Array.prototype, ["toLocaleString"]],
    [String.prototype, ["localeCompare", "toLocaleLowerCase", "toLocaleUpperCase"]],
    [Clock.prototype, ["toLocaleString", "toLocaleDateString", "toLocaleTimeString"]]]) {
    for (const name of names) forbidCall(owner, name, "the language of the machine: `" + name + "`");
  }
  forbidCall(getPrototypeOf(refuse), "toString", "the text of a function");
  for (const [owner, names] of [
    [RegExp, ["input", "$_", "lastMatch", "$&", "lastParen", "$+", "leftContext", "$`", "rightContext", "$'", "$1", "$2", "$3", "$4", "$5", "$6", "$7", "$8",
      "$9"]], [Error.prototype, ["cause"]], [Clock.prototype, ["toTemporalInstant"]]]) {
    for (const name of names) if (!has(owner, name)) forbid(owner, name, "`" + name + "`");
  }

  for (const name of ["Function", "AsyncFunction", "GeneratorFunction", "AsyncGeneratorFunction"]) {
    forbid(getPrototypeOf(hidden[name + ".prototype"]), "constructor", "code made from text: the constructor of functions");
  }

  const quiet = {};
  for (const name of ["log", "info", "warn", "error", "debug", "trace", "table", "dir", "group", "groupEnd", "time", "timeEnd", "assert", "count"]) {
    define(quiet, name, fixed((...given) => {
      for (let i = 0; i < given.length; i += 1) {
        if ((typeof given[i] === "object" && given[i] !== null) || typeof given[i] === "function") refuse("`console` with an object", true);
      }
    }));
  }
  define(globalThis, "console", fixed(quiet));

  function checkSort(list, order) {
    if (order !== undefined) refuse("`sort` with a function", true);
    const { length } = isArray(list) ? list : refuse("`sort` of what is no list", true);
    for (let i = 0; i < length; i += 1) {
      const own = describe(list, i);
      const item = own === undefined ? "" : has(own, "value") ? own.value : own;
      if ((typeof item === "object" && item !== null) || typeof item === "function") refuse("`sort` of objects", true);
    }
  }
  for (const name of ["sort", "toSorted"]) {
    const real = ArrayPrototype[name];
    define(ArrayPrototype, name, fixed({ [name](order) { checkSort(this, order); return apply(real, this, []); } }[name]));
  }
  forbidCall(getPrototypeOf(Uint8Array.prototype), "sort", "`sort` of numbers in a buffer");

  let nodes = 0;
  let units = 0;
  let count = 0;
  let stopped = null;
  let stoppedAt = 0;
  const trail = create(null);
  const above = create(null);
  const notes = bare([]);
  let isTagged = false;

  function bare(list) { setPrototypeOf(list, null); return list; }
  function stop(why, depth) { stopped = why; stoppedAt = depth < 12 ? depth : 12; throw ABSENT; }
  function place(depth) {
    const path = bare([]);
    for (let i = 0; i < depth; i += 1) path[i] = trail[i];
    return path;
  }
  function note(depth, kind) {
    if (count >= MAX_NOTES) stop("notes", depth);
    const one = create(null);
    one.path = place(depth);
    one.kind = kind;
    notes[count] = one;
    count += 1;
  }
  function has(owner, name) { return apply(hasOwnProperty, owner, [name]); }
  function spend(amount, depth) { units += amount; if (units > MAX_TEXT) stop("text", depth); }

  const builtIns = bare([]);
  const learned = new Map();
  function learn(value, name) {
    if (typeof value === "function" ? !has(value, "prototype") : typeof value !== "object" || value === null) return;
    if (apply(mapHas, learned, [value])) return;
    apply(mapSet, learned, [value, true]);
    const one = { __proto__: null, value, name, parent: getPrototypeOf(value), own: create(null) };
    builtIns[builtIns.length] = one;
    const keys = ownKeys(value);
    for (let i = 0; i < keys.length; i += 1) {
      const own = describe(value, keys[i]);
      one.own[keys[i]] = bare(own);
      const inner = typeof keys[i] === "symbol" ? name + "[symbol]" : name === "" ? keys[i] : name + "." + keys[i];
      learn(own.value, inner);
    }
    learn(one.parent, name + ".__proto__");
  }
  function learnAll() {
    learn(globalThis, "");
    const iterators = [[][Symbol.iterator](), ""[Symbol.iterator](), new Map().entries(), new Set().entries(), "".matchAll(/x/g), (function* () {})(),
      (async function* () {})(), async function () {}];
    for (let i = 0; i < iterators.length; i += 1) learn(getPrototypeOf(iterators[i]), "iterator");
  }
  for (const name of ["getOwnPropertyNames", "getOwnPropertySymbols", "getOwnPropertyDescriptor", "getOwnPropertyDescriptors", "hasOwn"]) {
    check(Object, name, (self, given) => apply(mapHas, learned, [given[0]]));
  }
  for (const name of ["hasOwnProperty", "propertyIsEnumerable"]) check(ObjectPrototype, name, (self) => apply(mapHas, learned, [self]));
  function changed(name, key) {
    note(0, "change of the built-in `" + (typeof key === "symbol" ? name + "[symbol]" : name === "" ? key : name + "." + key) + "`");
  }
  function compareAll() {
    for (let i = 0; i < builtIns.length && count < 20; i += 1) {
      const { value, name, parent, own } = builtIns[i];
      if (getPrototypeOf(value) !== parent) changed(name, "__proto__");
      const now = ownKeys(value);
      for (let j = 0; j < now.length; j += 1) if (own[now[j]] === undefined) changed(name, now[j]);
      const before = ownKeys(own);
      for (let j = 0; j < before.length; j += 1) {
        const was = own[before[j]];
        const found = describe(value, before[j]);
        const isSame = found !== undefined && has(found, "value") === has(was, "value") && found.enumerable === was.enumerable
          && (has(was, "value") ? is(found.value, was.value) && found.writable === was.writable : found.get === was.get && found.set === was.set);
        if (!isSame) changed(name, before[j]);
      }
    }
  }

  function converts(value) {
    for (let i = 0; value !== null && value !== ObjectPrototype && value !== ArrayPrototype && i < 1000; i += 1) {
      const own = describe(value, "toJSON");
      if (own !== undefined) return !has(own, "value") || typeof own.value === "function";
      value = getPrototypeOf(value);
    }
    return false;
  }
  function judge(value, depth, isList) {
    const parent = getPrototypeOf(value);
    const isPlain = isList ? parent === ArrayPrototype : parent === ObjectPrototype || parent === null;
    if (!isPlain) {
      let kind = "object of a class";
      for (let i = 0; i < NAMES; i += 1) if (BRANDS[i][0] === parent) kind = BRANDS[i][1];
      note(depth, kind);
    } else if (!isTagged && describe(value, toStringTag) === undefined) {
      const tag = apply(tagOf, value, []);
      if (tag !== (isList ? "[object Array]" : "[object Object]")) note(depth, apply(slice, tag, [8, -1]) + " object");
    }
    if (converts(value)) note(depth, "toJSON");
    return isPlain;
  }

  function copy(value, depth) {
    nodes += 1;
    if (nodes > MAX_NODES) stop("nodes", depth);
    const type = typeof value;
    if (type === "string") { spend(value.length, depth); return value; }
    if (type === "boolean" || value === null) return value;
    if (type === "number") {
      if (isFinite(value)) return value;
      note(depth, value !== value ? "NaN" : "Infinity");
      return null;
    }
    if (type === "undefined") return ABSENT;
    if (type !== "object") { note(depth, type); return ABSENT; }
    for (let i = 0; i < depth; i += 1) if (above[i] === value) stop("cycle", depth);
    if (depth >= MAX_DEPTH) stop("depth", depth);
    above[depth] = value;
    const isList = isArray(value);
    const isPlain = judge(value, depth, isList);
    return isList ? copyList(value, depth) : copyObject(value, depth, isPlain);
  }
  function copyList(value, depth) {
    const { length } = value;
    if (length > MAX_NODES - nodes) stop("nodes", depth);
    const list = bare([]);
    let present = 0;
    for (let i = 0; i < length; i += 1) {
      trail[depth] = i;
      const own = describe(value, i);
      let item = null;
      if (own !== undefined) {
        present += 1;
        if (has(own, "value")) item = copy(own.value, depth + 1);
        else note(depth + 1, "accessor");
      }
      if (own === undefined || (item === ABSENT && own.value === undefined)) { note(depth + 1, "undefined"); nodes += 1; }
      list[i] = item === ABSENT ? null : item;
    }
    if (ownKeys(value).length !== present + 1) note(depth, "named member of a list");
    return list;
  }
  function copyObject(value, depth, isPlain) {
    const plain = create(null);
    const keys = ownKeys(value);
    const { length } = keys;
    if (length > MAX_NODES - nodes) stop("nodes", depth);
    for (let i = 0; i < length; i += 1) {
      const key = keys[i];
      const own = describe(value, key);
      if (typeof key === "symbol") { note(depth, "symbol as a key"); continue; }
      trail[depth] = key;
      if (!own.enumerable) {
        if (!isPlain) continue;
        note(depth + 1, "hidden property");
      }
      spend(key.length, depth + 1);
      if (!has(own, "value")) { note(depth + 1, "accessor"); continue; }
      const item = copy(own.value, depth + 1);
      if (item !== ABSENT) plain[key] = item;
    }
    return plain;
  }

  function textOf(value, name) {
    for (let i = 0; value !== null && i < 20; i += 1) {
      const own = describe(value, name);
      if (own !== undefined) return has(own, "value") && typeof own.value === "string" ? apply(slice, own.value, [0, 2000]) : "";
      value = getPrototypeOf(value);
    }
    return "";
  }
  function thrown(error) {
    const answer = create(null);
    answer.outcome = "threw";
    const isThing = (typeof error === "object" && error !== null) || typeof error === "function";
    answer.name = isThing ? textOf(error, "name") : "";
    answer.message = isThing ? textOf(error, "message") : typeof error === "symbol" ? "a symbol" : apply(slice, "" + error, [0, 2000]);
    const stack = isThing ? apply(stackOf, error, []) : "";
    answer.stack = typeof stack === "string" ? stack : "";
    return answer;
  }
  function used() {
    broke.outcome = "used";
    return broke;
  }
  function write(value, parts) {
    if (typeof value !== "object" || value === null) {
      parts[parts.length] = typeof value === "string" ? stringify(value) : "" + value;
      return;
    }
    const isList = isArray(value);
    const keys = isList ? value : ownKeys(value);
    const { length } = keys;
    parts[parts.length] = isList ? "[" : "{";
    for (let i = 0; i < length; i += 1) {
      if (i > 0) parts[parts.length] = ",";
      if (!isList) parts[parts.length] = stringify(keys[i]) + ":";
      write(value[isList ? i : keys[i]], parts);
    }
    parts[parts.length] = isList ? "]" : "}";
  }
  function written(value) {
    const parts = bare([]);
    write(value, parts);
    return apply(join, parts, [""]);
  }
  function guard(work) {
    try { return written(work()); } catch (error) { return written(broke !== null ? used() : thrown(error)); }
  }

  function run(module) {
    learnAll();
    readExport = apply(module, undefined, []);
    const answer = create(null);
    answer.outcome = "ran";
    return answer;
  }
  function deliver() {
    if (broke !== null) return used();
    const answer = create(null);
    const exported = apply(readExport, undefined, []);
    if (typeof exported !== "object" || exported === null || isArray(exported)) {
      answer.outcome = "no object";
      answer.kind = exported === null ? "null" : isArray(exported) ? "a list" : typeof exported;
      return answer;
    }
    let plain;
    try {
      if (describe(ObjectPrototype, "toJSON") !== undefined || describe(ArrayPrototype, "toJSON") !== undefined) note(0, "toJSON of every object");
      isTagged = describe(ObjectPrototype, toStringTag) !== undefined || describe(ArrayPrototype, toStringTag) !== undefined;
      compareAll();
      plain = copy(exported, 0);
    } catch (error) {
      if (error !== ABSENT) throw error;
      answer.outcome = "too much";
      answer.why = stopped;
      answer.path = place(stoppedAt);
      return answer;
    }
    answer.outcome = "copied";
    answer.main = written(plain);
    answer.tools = plain.tools === undefined ? "{}" : written(plain.tools);
    answer.notes = notes;
    return answer;
  }
  return function (task, given) {
    if (task === "run") return guard(function () { return run(given); });
    if (task === "deliver") return guard(deliver);
    for (const [name, what] of parse(given)) if (task === "forbid" || !has(globalThis, name)) forbid(globalThis, name, what);
    return "";
  };
})()
