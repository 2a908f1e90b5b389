// Calls of decide, observe and push in a hundred nanoseconds. `direct_record_decide` and similar
// functions mark such a Python method. A call goes directly to the engine if the arguments are
// plain (vectors of doubles, a number), the call comes at the right time, and `_direct` of the
// learner allows it. Every other call goes to the Python method, which refuses or converts
// arguments. Both paths do the same and differ only in time.
#include "brief_runs.hpp"
#include "dpoco/bandits/bandit_learner.hpp"
#include "dpoco/experts/expert_learner.hpp"
#include "dpoco/mechanisms/continual_sum.hpp"
#include "dpoco/oco/record_learner.hpp"
#include "registrars.hpp"

#include <pybind11/critical_section.h>
#include <structmember.h>  // after Python.h, which it needs

#include <cstddef>
#include <cstdint>
#include <optional>
#include <typeinfo>

namespace dpoco::bindings {
namespace {

using bandits::BanditLearner;
using experts::ExpertLearner;
using mechanisms::ContinualSum;
using oco::RecordLearner;

// The fields of a learner that a direct call needs, in a base of its Python class. For a pybind11
// class, every call would have to look its fields up. Python allocates the object filled with
// zeros.
struct Live {
  PyObject base;
  py::object engine;
  py::object known;  // the engine for which `found` was computed
  const std::type_info* kind;
  void* found;          // `known` as this `kind`; null if it is of another kind
  py::object decision;  // the decision given in round `asked`; null before
  std::uint64_t asked;
  py::object sole;  // the lock that a long run takes
  int direct;       // arguments of `observe` that need no conversion; 0: none
  char suspended;
};

using Arguments = std::span<PyObject* const>;  // without the learner
// The engine's result; null if the call does not fit, in which case nothing has changed.
using Attempt = py::object (*)(Live&, Arguments);

struct Marked {
  PyObject base;
  vectorcallfunc call;
  py::object function;
  PyTypeObject* live;  // the type, which exists as long as the module
  Attempt attempt;
};

template <class T>
T& as(PyObject* object) {
  return *reinterpret_cast<T*>(object);
}

// -- arguments and results ------------------------------------------------------------------------

// A vector of doubles that the engine can read; nothing for any other object.
std::optional<Reals> plain_vector(PyObject* value, std::size_t size) {
  if (!is_plain(value, 1)) return {};
  const auto vector = py::reinterpret_borrow<Array>(value);
  if (static_cast<std::size_t>(vector.shape()[0]) != size) return {};
  return Reals(vector.data(), size);
}

bool plain_number(PyObject* value, double& out) {
  // A float, or NumPy's float, which has the same layout. Python classes may convert differently.
  if (PyFloat_Check(value) && !PyType_HasFeature(Py_TYPE(value), Py_TPFLAGS_HEAPTYPE)) {
    out = PyFloat_AS_DOUBLE(value);
    return true;
  }
  if (!PyLong_CheckExact(value) && !PyBool_Check(value)) return false;
  out = PyLong_AsDouble(value);
  if (out != -1.0 || PyErr_Occurred() == nullptr) return true;
  PyErr_Clear();  // too long for a double
  return false;
}

// A new vector of doubles, not yet filled. pybind11 would need 40 ns more.
Array fresh_vector(py::ssize_t size) {
  using Api = py::detail::npy_api;
  static const Api& numpy = Api::get();
  static PyObject* const type = numpy.PyArray_DescrFromType_(Api::NPY_DOUBLE_);
  PyObject* made = numpy.PyArray_NewFromDescr_(numpy.PyArray_Type_, Py_NewRef(type), 1, &size,
                                               nullptr, nullptr, 0, nullptr);
  if (made == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<Array>(made);
}

// -- calls: conditions are those of the Python method, which is called if one does not hold -------

// Must be called before the engine is used, because it calls Python, which may run any code.
bool is_alone(const Live& self) {
  static PyObject* const locked = PyUnicode_InternFromString("locked");
  if (!self.sole) return false;
  PyObject* answer = PyObject_CallMethodNoArgs(self.sole.ptr(), locked);
  if (answer == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(answer).ptr() == Py_False;
}

// Returns the engine; null if it is of another kind. A test may replace the engine by another
// object, which is then called through Python. pybind11's own search would cost as much as the
// round.
template <class Engine>
Engine* find_engine(Live& self) {
  if (!self.engine) return nullptr;
  if (!self.known.is(self.engine) || self.kind != &typeid(Engine)) {
    self.found = py::isinstance<Engine>(self.engine) ? self.engine.cast<Engine*>() : nullptr;
    self.kind = &typeid(Engine);
    self.known = self.engine;
  }
  return static_cast<Engine*>(self.found);
}

bool is_asked(const Live& self, std::uint64_t turn) { return self.decision && self.asked == turn; }

// Returns whether a decision of round `turn` may be made.
bool may_ask(const Live& self, std::uint64_t turn, std::uint64_t horizon) {
  return is_asked(self, turn) || (self.suspended == 0 && turn < horizon);
}

py::object ask(Live& self, std::uint64_t turn, py::object decision) {
  self.asked = turn;
  self.decision = decision;
  return decision;
}

py::object read_decision(const RecordLearner& engine) {
  Array out = fresh_vector(engine.dimension());
  engine.decision(writable(out));
  freeze(out);
  return out;
}
py::object read_decision(const ExpertLearner& engine) { return py::int_(engine.decision()); }

template <class Engine>
py::object decide(Live& self, Arguments arguments) {
  const auto* engine = find_engine<Engine>(self);
  if (engine == nullptr || !arguments.empty()) return {};
  const std::uint64_t turn = engine->round();
  if (is_asked(self, turn)) return self.decision;
  if (!may_ask(self, turn, engine->horizon())) return {};
  return ask(self, turn, read_decision(*engine));
}

py::object decide_for_context(Live& self, Arguments arguments) {
  if (arguments.size() != 1 || !is_alone(self)) return {};
  auto* engine = find_engine<BanditLearner>(self);
  if (engine == nullptr || !may_ask(self, engine->round(), engine->horizon())) return {};
  const auto context = plain_vector(arguments[0], engine->dimension());
  if (!context) return {};
  const std::uint64_t turn = engine->round();
  return ask(self, turn, py::int_(engine->decide(turn, *context)));
}

// Ends round `turn`. Returns false if the engine cannot take these arguments unchanged.
bool take(RecordLearner& engine, std::uint64_t turn, Arguments arguments) {
  const auto record = plain_vector(arguments[0], static_cast<std::size_t>(engine.dimension()));
  double label = 0.0;
  if (!record || (arguments.size() == 2 && !plain_number(arguments[1], label))) return false;
  arguments.size() == 2 ? engine.observe(turn, *record, label)
                        : engine.observe_gradient(turn, *record);
  return true;
}
bool take(ExpertLearner& engine, std::uint64_t turn, Arguments arguments) {
  const auto losses = plain_vector(arguments[0], engine.experts());
  if (losses) engine.observe(turn, *losses);
  return losses.has_value();
}
bool take(BanditLearner& engine, std::uint64_t turn, Arguments arguments) {
  double reward = 0.0;
  const bool plain = plain_number(arguments[0], reward);
  if (plain) engine.observe(turn, reward);
  return plain;
}

template <class Engine>
py::object observe(Live& self, Arguments arguments) {
  if (arguments.size() != static_cast<std::size_t>(self.direct) || !is_alone(self)) return {};
  auto* engine = find_engine<Engine>(self);
  if (engine == nullptr || !is_asked(self, engine->round())) return {};
  return take(*engine, engine->round(), arguments) ? py::none() : py::object();
}

py::object push(Live& self, Arguments arguments) {
  if (arguments.size() != 1 || !is_alone(self) || self.suspended != 0) return {};
  auto* sum = find_engine<ContinualSum>(self);
  if (sum == nullptr) return {};
  const auto value = plain_vector(arguments[0], static_cast<std::size_t>(sum->dimension()));
  if (!value) return {};
  Array released = fresh_vector(sum->dimension());
  sum->push(*value, {released.mutable_data(), value->size()});
  return released;
}

// -- the marked method: the function itself on a class, a bound method on an object ---------------

PyObject* call(PyObject* callable, PyObject* const* all, std::size_t flagged, PyObject* names) {
  const auto& self = as<Marked>(callable);
  const Arguments arguments(all, static_cast<std::size_t>(PyVectorcall_NARGS(flagged)));
  if (!arguments.empty() && names == nullptr && PyObject_TypeCheck(arguments[0], self.live)) {
    try {
      const py::scoped_critical_section alone(arguments[0]);
      auto& learner = as<Live>(arguments[0]);
      if (learner.direct > 0) {
        py::object result = self.attempt(learner, arguments.subspan(1));
        if (result) return result.release().ptr();
      }
    } catch (...) {
      py::detail::try_translate_exceptions();  // as in all functions that pybind11 has bound
      return nullptr;
    }
  }
  return PyObject_Vectorcall(self.function.ptr(), all, flagged, names);
}

PyObject* bind(PyObject* self, PyObject* object, PyObject*) {
  if (object != nullptr && object != Py_None) return PyMethod_New(self, object);
  return Py_NewRef(as<Marked>(self).function.ptr());
}

PyObject* attribute(PyObject* self, PyObject* name) {
  return PyObject_GetAttr(as<Marked>(self).function.ptr(), name);
}

// -- the base -------------------------------------------------------------------------------------

PyObject* get_asked(PyObject* self, void*) {
  const py::scoped_critical_section alone(self);
  const auto& own = as<Live>(self);
  if (!own.decision) return Py_BuildValue("(iO)", -1, Py_None);
  return Py_BuildValue("(KO)", static_cast<unsigned long long>(own.asked), own.decision.ptr());
}

int set_asked(PyObject* self, PyObject* pair, void*) {
  long long turn = -1;
  PyObject* decision = nullptr;
  if (pair == nullptr || !PyTuple_Check(pair)) {
    PyErr_SetString(PyExc_TypeError, "_asked must be a tuple");
    return -1;
  }
  if (PyArg_ParseTuple(pair, "LO", &turn, &decision) == 0) return -1;
  const py::scoped_critical_section alone(self);
  ask(as<Live>(self), static_cast<std::uint64_t>(turn),
      py::reinterpret_borrow<py::object>(turn < 0 ? nullptr : decision));
  return 0;
}

int visit(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  const auto& own = as<Live>(self);
  for (const auto* field : {&own.engine, &own.known, &own.decision, &own.sole}) {
    Py_VISIT(field->ptr());
  }
  return 0;
}

int clear(PyObject* self) {
  auto& own = as<Live>(self);
  for (auto* field : {&own.engine, &own.known, &own.decision, &own.sole}) *field = {};
  return 0;
}

void drop(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  clear(self);
  type->tp_free(self);
  Py_DECREF(type);
}

template <class Function>
PyType_Slot slot(int id, Function* function) {
  return {id, reinterpret_cast<void*>(function)};
}

py::object make_live_type() {
  static PyMemberDef members[] = {
      {"_engine", T_OBJECT_EX, offsetof(Live, engine), 0, nullptr},
      {"_sole", T_OBJECT_EX, offsetof(Live, sole), 0, nullptr},
      {"_suspended", T_BOOL, offsetof(Live, suspended), 0, nullptr},
      {"_direct", T_INT, offsetof(Live, direct), 0, nullptr},
      {},
  };
  static PyGetSetDef properties[] = {
      {"_asked", get_asked, set_asked, nullptr, nullptr},
      {},
  };
  PyType_Slot slots[] = {
      {Py_tp_members, members}, {Py_tp_getset, properties}, slot(Py_tp_traverse, visit),
      slot(Py_tp_clear, clear), slot(Py_tp_dealloc, drop),  {},
  };
  PyType_Spec spec{"dpoco._core.Live", sizeof(Live), 0,
                   Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots};
  return py::reinterpret_steal<py::object>(PyType_FromSpec(&spec));
}

// Marks belong to classes of modules, which exist as long as the process, so they are never freed.
py::object make_marked_type() {
  static PyMemberDef members[] = {
      {"__vectorcalloffset__", T_PYSSIZET, offsetof(Marked, call), READONLY, nullptr}, {}};
  PyType_Slot slots[] = {
      {Py_tp_members, members},
      slot(Py_tp_call, PyVectorcall_Call),
      slot(Py_tp_descr_get, bind),
      slot(Py_tp_getattro, attribute),
      {},
  };
  PyType_Spec spec{"dpoco._core.Marked", sizeof(Marked), 0,
                   Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION |
                       Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR,
                   slots};
  return py::reinterpret_steal<py::object>(PyType_FromSpec(&spec));
}

}  // namespace

void register_live(py::module_& m) {
  const py::object live = make_live_type(), marked = make_marked_type();
  if (!live || !marked) throw py::error_already_set();
  m.attr("Live") = live;
  const auto define_mark = [&](const char* name, Attempt attempt) {
    m.def(name, [live, marked, attempt](const py::function& function) {
      auto* type = reinterpret_cast<PyTypeObject*>(marked.ptr());
      const auto made = py::reinterpret_steal<py::object>(type->tp_alloc(type, 0));
      if (!made) throw py::error_already_set();
      auto& mark = as<Marked>(made.ptr());
      mark.call = call;
      mark.function = function;
      mark.live = reinterpret_cast<PyTypeObject*>(live.ptr());
      mark.attempt = attempt;
      return made;
    });
  };
  define_mark("direct_record_decide", decide<RecordLearner>);
  define_mark("direct_record_observe", observe<RecordLearner>);
  define_mark("direct_expert_decide", decide<ExpertLearner>);
  define_mark("direct_expert_observe", observe<ExpertLearner>);
  define_mark("direct_bandit_decide", decide_for_context);
  define_mark("direct_bandit_observe", observe<BanditLearner>);
  define_mark("direct_sum_push", push);
}

}  // namespace dpoco::bindings
